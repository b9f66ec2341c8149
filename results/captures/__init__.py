"""Capture files of links: made by tcpdump, read in any format, merged in the order of time."""
