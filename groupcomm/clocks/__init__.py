"""Clocks: Lamport and vector clocks, the ring's hybrid clock, and stamps."""
