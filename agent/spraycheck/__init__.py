"""The detector: a leaf's counters to verdicts, many leaves' verdicts to the failing link."""
