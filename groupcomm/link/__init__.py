"""Links between sites: routes, forwarding, losses, pace, and the size of packets."""
