"""Defines the commands that build a lab, inspect it, break it and remove it."""
