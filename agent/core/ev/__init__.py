"""Entropy values: profiles, states, the choice of an EV per packet, and replacement of EVs that fail."""
