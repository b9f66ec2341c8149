"""Manages a lab that is up: its owner and children, and the files and messages through which others reach them."""
