"""Direct communication: peers that run an algorithm among themselves, without a daemon.

It is for teaching and testing ordering algorithms: a peer is a state machine that a real socket
(`groupcomm_lessons.direct`) or virtual time (`groupcomm_lessons.simulated_peers`) drives.

::

    settings    timeouts and limits
    values      stamps <-> bytes
    datagrams   items between two peers <-> bytes
    channel     one way to one other peer, on which nothing is lost or comes twice
    others      the other members as one peer knows them
    greeting    the peers to greet, and those that are refused
    meeting     the answers to greetings
    group       the algorithm and its members: packets, joins, leaves
    peer        the whole peer, with timers
    events      results of a call: datagrams to send, and news for the user

docs/direct.md lists the guarantees and their limits.
"""
