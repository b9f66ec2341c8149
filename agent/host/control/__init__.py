"""The worker's control socket: requests, their execution, and leases of the clients."""
