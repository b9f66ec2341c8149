"""The process that runs the MRC agents of one or more hosts."""
