"""Faults of a run: which ones it has, when they happen, and what each does."""
