"""Mininet's view of the fabric: topology, node classes, and the life cycle of a lab's network."""
