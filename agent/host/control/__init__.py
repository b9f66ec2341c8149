"""The worker's control socket: requests as records, their execution, and leases of the clients."""
