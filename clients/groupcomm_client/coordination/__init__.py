"""Coordination of programs: what groups, views and one order are good for."""
