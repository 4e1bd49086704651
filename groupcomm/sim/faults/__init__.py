"""Faults of a run: their choice, their times, and their effects."""
