"""Frames in batches: numpy columns to bytes and back, with the ICRC."""
