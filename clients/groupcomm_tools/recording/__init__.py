"""From what a session is told to rows of a log, and back; needs ``groupcomm[log]``."""
