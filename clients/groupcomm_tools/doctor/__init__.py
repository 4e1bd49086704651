"""Checks of a daemon and its host; each gives a finding, with a remedy."""
