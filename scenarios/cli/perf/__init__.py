"""Performance tests on the lab that is up."""
