"""The token's way round the daemons of one ring: numbering, repair, rest, flow control."""
