"""Packets as bytes and as typed objects, one module a family; decoders end in ``_untrusted``."""
