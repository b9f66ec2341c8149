"""What a run is asked to show, and whether it did: the plan before it, the summary after it."""
