"""Makes the kernel produce faults: by eBPF programs, queueing disciplines, shut ports."""
