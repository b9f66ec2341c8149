"""Tests of counts, with their errors: what a healthy path does, and what a lossy one would."""
