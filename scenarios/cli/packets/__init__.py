"""Defines commands that show packets or build them by hand, with Scapy."""
