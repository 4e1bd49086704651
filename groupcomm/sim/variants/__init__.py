"""Deliberately wrong variants of the core, by the part that is wrong."""
