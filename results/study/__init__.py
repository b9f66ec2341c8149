"""The runs of a study as tidy tables, and their figures."""
