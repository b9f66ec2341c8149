"""The worker's control socket: requests, what each of them does, and leases of who asked."""
