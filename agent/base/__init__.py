"""What every folder may use of the operating system: clocks, namespaces, libbpf, the life of a process."""
