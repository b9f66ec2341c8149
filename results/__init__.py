"""Records and reads runs; the runs themselves go to runs/."""
