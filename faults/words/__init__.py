"""The words that describe a fault on the command line and in scenarios, and how they are read."""
