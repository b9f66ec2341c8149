"""Records links with tcpdump, reads captures of any format, and merges them in the order of time."""
