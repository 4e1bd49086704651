"""Exhaustive exploration: every order of what can happen to a small cluster of real cores."""
