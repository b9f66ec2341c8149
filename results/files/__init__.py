"""Opens and defines the files of a run: with whose rights, within which limits, whatever is in their place."""
