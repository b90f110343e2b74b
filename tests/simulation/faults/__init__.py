"""Ports with faults: lost replies, delays and failures, drawn from a seed."""
