"""Receives, describes and builds packets on the links of a lab."""
