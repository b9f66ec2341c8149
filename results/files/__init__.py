"""Files of a run and how they are opened: by whom, within which limits, whatever lies at their place."""
