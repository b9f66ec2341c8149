"""Commands that make runs and show what came of them."""
