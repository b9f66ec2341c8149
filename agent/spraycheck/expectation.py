"""What a count is held against: two ways to know how many packets a healthy path brings."""

from enum import StrEnum


class Expectation(StrEnum):
    """Where the expected count of a path comes from."""

    UNIFORM = "uniform"
    """N/k: the flow's packets shared equally, the paper's."""
    DECLARED = "declared"
    """What the sender says it put on the path, told when the flow has left."""
