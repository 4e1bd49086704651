"""The programs of a daemon: listeners, connections, and who is at their other end."""
