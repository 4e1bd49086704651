"""The web server: WebSockets on one side, sessions of the client library on the other.

It is a program of its own: daemons know nothing of it. Each browser has a session of its own at the
daemon, with its own token, so the daemon's rules and quotas hold for it as for other programs.
"""
