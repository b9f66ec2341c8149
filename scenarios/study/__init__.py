"""Many runs of a grid, on a fabric or simulated, and the error rates that come out."""
