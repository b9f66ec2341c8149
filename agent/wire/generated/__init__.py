"""Generated layouts and constants of the wire format for programs in C and Lua."""
