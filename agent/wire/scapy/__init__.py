"""Frames one by one through Scapy's layers: built to be read, dissected to be read."""
