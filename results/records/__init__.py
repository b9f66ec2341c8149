"""What a run's files say, as types: events, counters, the summary, performance tables."""
