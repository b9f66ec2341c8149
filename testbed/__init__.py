"""Construction of the fabric from outside: names, addresses, namespaces, links and static SRv6 routes."""
