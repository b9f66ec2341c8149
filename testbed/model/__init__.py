"""The fabric as pure data: names, addresses, paths and every node's wanted state."""
