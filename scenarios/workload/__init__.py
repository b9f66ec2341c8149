"""What hosts do in a run: single flows, writes as of perftest, collectives, each with its table."""
