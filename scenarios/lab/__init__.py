"""A lab that is up: its owner and children, the files and messages by which everybody else reaches them."""
