"""Changes of the cluster: daemons are invited, join, move, and the roster is agreed on."""
