"""Conclusions on paths and links from the verdicts of all leaves, and the links that are accused."""
