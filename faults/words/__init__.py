"""Defines the words that describe a fault on the command line and in scenarios, and reads them."""
