"""The owner of a lab: its process, what it keeps (faults, denials, captures), and how it answers."""
