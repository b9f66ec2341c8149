"""The live view of a lab: what its files and processes tell, as one frame after another."""
