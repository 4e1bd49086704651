"""bus1: a local bus whose peers have queues, without a lock over all of them.

::

    queue       one peer's queue: a clock, messages by their stamps, and blocks between them
    multicast   the effects of a multicast on the queues, one step a call
    nodes       nodes that belong to peers, handles to them, and their destruction
    locked      queues for real threads, each with a lock of its own
    naive       simpler rules, which fail
    process     the same steps as packets, to compare with the other algorithms

Source: D. Herrmann, T. Gundersen, "bus1: kernel message bus", Linux RFC patches, 2016; message
order. Queues here are objects in memory, and the steps of a multicast may stop between any two of
them.
"""
