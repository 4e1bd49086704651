"""The recorder, and replay: from events of a session to rows of a log, and back.

It needs ``groupcomm[log]``.
"""
