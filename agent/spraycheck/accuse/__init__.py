"""From the verdicts of all leaves to what is concluded of paths and links, and which links are accused."""
