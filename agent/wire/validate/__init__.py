"""Which received frames may be read, and why the others are refused."""
