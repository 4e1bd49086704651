"""Direct communication: peers that run an algorithm among themselves, without a daemon.

It is for those who teach and test ordering algorithms: a peer is a state machine that a real socket
(`groupcomm_client.direct`) or virtual time (`groupcomm.sim.network.peers`) drives.

::

    settings    timeouts and limits
    values      stamps <-> bytes
    datagrams   what one peer sends to another <-> bytes
    channel     one way to one other peer, on which nothing is lost or comes twice
    others      the other members as one knows them
    greeting    whom to greet, and who is refused
    meeting     what is answered to those who greet
    group       the algorithm and its members: packets, joins, leaves
    peer        all of it, with timers
    events      what comes of a call: datagrams to send, and news for the user

docs/direct.md says what is promised, and what is not.
"""
