"""Netlink: requests made from records, sent in batches, and the kernel's dumps read back."""
