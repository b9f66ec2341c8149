"""Packets on the links of a lab, heard, described, and built by hand."""
