"""Shows a live view of a lab: what its files and processes report, frame by frame."""
