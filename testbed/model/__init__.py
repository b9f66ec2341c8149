"""The fabric as pure data: names, addresses, paths and the planned state of every node."""
