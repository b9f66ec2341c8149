"""Mininet's view of the fabric: topology, node classes, and the life of a lab's network."""
