"""Commands that build a lab, look at it, break it and take it down."""
