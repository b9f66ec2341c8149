"""Operating system access for every folder: clocks, namespaces, libbpf, process death."""
