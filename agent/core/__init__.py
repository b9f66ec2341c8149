"""The MRC transport without I/O: no sockets, no clocks, no global randomness."""
