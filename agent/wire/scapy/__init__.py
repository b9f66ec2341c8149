"""Encoding and decoding of single frames through Scapy's layers, written for readability."""
