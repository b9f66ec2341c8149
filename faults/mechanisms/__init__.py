"""How the kernel is made to do what a fault says: eBPF programs, queueing disciplines, shut ports."""
