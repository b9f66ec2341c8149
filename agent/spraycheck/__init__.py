"""SprayCheck, the detector: judges flows by the counters of each leaf and names failing links by all verdicts."""
