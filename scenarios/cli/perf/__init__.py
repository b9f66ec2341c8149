"""Defines performance tests on the lab that is up."""
