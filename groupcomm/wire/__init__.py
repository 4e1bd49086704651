"""Bytes to typed packets and back, one module a packet; decoders end in ``_untrusted``."""
