"""From a fabric that is up to running agents, and what must be there first."""
