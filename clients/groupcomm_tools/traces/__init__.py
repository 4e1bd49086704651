"""Recorded traces: read from files, checked, and told as text."""
