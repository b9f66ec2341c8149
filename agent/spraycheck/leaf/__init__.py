"""One leaf's part of the detector: its counters, the state of each flow, its reports, and its process."""
