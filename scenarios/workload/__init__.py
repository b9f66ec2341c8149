"""Runs traffic on hosts: single flows, writes as in perftest, and collectives, each with its table."""
