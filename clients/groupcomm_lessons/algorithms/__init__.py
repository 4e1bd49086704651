"""The classic ordering algorithms, each a small state machine behind one interface.

::

    process     the interface of all: a process that sends, receives and delivers
    network     a network in memory: packets in flight, and the choice of the next one
    history     the messages sent and delivered, and the orders that held
    buffering   the base of algorithms that hold messages back until they are next

For unicast, or for any destinations::

    pair_numbers           numbers between two processes
    message_history        names of all earlier messages; plain, and without implied ones
    schiper_eggli_sandoz   a vector, and the known sendings to each process

For broadcast, from the naive to the right one::

    real_time         the time of sending
    global_id         one number for all
    last_sender       the last message that was received
    vector            counts of the messages from each process (Birman, Schiper, Stephenson)
    vector_choices    concurrent messages refused, or delivered at once
    vector_paths      concurrent messages as paths that part and join
    vector_session    members that come and go

For one order of all messages::

    lamport_clocks    clocks alone, which give no order; tick_lines draws what they do give
    acknowledged      Lamport's stamps, acknowledged by all processes
    sequencer         one process numbers all messages
    token_ring        the holder of the token numbers its messages
    site_horizons     a stamp waits until nothing lower can come
    bus1              queues with blocks, without a lock over all of them

All of these by name, and without a daemon::

    catalogue         names, and how each is run beside the others
    direct            peers that talk over UDP or in virtual time

These parts are built on clocks::

    mutual_exclusion  central_scheduler, lamport_mutex, and a checker
    replicated_queue  clocks that survive restarts, and some that do not

docs/algorithms.md names the algorithms, their sources, and their claims.
"""
