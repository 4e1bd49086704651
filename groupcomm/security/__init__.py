"""Sealing of datagrams: keys per sender and incarnation, replay windows."""
