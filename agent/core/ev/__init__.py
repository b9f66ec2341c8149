"""Entropy values: profiles, states, which one each packet gets, and what replaces one that fails."""
