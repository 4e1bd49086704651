"""Runs in which some daemons have the key and lie."""
