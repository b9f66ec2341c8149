"""One leaf: its counters, what is remembered of each flow, its verdicts."""
