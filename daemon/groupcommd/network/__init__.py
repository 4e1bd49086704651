"""The sockets between daemons, and what is measured and kept of their datagrams."""
