"""One command per module; commands only parse, call and print."""
