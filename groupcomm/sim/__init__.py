"""A deterministic network, clusters in it, and the oracles that judge their traces."""
