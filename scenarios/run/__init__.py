"""The life of one run: its stages in their order, what was collected, and the judgement."""
