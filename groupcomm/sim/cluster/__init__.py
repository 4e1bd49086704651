"""Simulated clusters: hosts with disks and clocks, daemons on them, and their clients."""
