"""Ports and codec of a host whose every packet passes through Scapy."""
