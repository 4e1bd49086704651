"""The simulator with what only verification has: operators, releases, segments, targets, liars and
attackers.
"""
