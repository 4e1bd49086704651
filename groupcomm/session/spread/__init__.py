"""Spread's client protocol, for programs that were written for Spread's daemon."""
