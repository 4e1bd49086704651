"""Clocks: Lamport, vector and restart-count clocks, the ring's hybrid clock, and stamps."""
