"""The only code that speaks to the kernel: it knows records, not fabrics."""
