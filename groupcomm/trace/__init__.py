"""Traces: the acts of daemons, and the requests and notices of clients, as events that checkers can
judge."""
