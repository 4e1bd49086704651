"""Talking in groups from a terminal: what is typed goes out, what happens is shown."""
