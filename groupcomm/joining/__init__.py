"""Joining: how a daemon without key and roster is admitted to a cluster, and how one that has moved
says so."""
