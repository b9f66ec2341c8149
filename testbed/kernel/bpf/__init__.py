"""eBPF: compile, load and attach programs, and read their maps."""
