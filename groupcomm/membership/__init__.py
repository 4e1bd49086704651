"""Membership: which daemons form the view; gather, commit, recover, install."""
