"""Causal order over FIFO messages, kept by a filter."""
