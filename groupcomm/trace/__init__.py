"""Traces: what daemons did and what clients asked for and got, as events that checkers can
judge."""
