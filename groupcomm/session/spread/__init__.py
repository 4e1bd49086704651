"""Spread's client protocol: programs that were written for Spread's daemon, at one of ours."""
