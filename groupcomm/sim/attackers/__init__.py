"""Roles of attackers: each plays with what somebody in its place has, and with nothing else."""
