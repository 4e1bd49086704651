"""A deterministic network, clusters in it, and the checkers that verify their traces."""
