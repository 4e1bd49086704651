"""Lessons on order: the classic algorithms, and what runs, compares and shows them.

Daemons and programs need nothing of it. `algorithms` and what simulates them do no I/O; `direct`
has peers that run an algorithm over UDP, without a daemon.
"""
