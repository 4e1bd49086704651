"""The conversation of a client and its daemon, both sides of it, without I/O."""
