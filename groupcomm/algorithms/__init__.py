"""The classic ordering algorithms, each a small state machine behind one interface.

::

    process     what all of them are: a process that sends, receives and delivers
    network     a network in memory: packets under way, and whoever chooses the next one
    history     what was sent and delivered, and which order held

docs/algorithms.md names the algorithms, their sources, and what each of them claims.
"""
