"""Errors of the system, in words for people."""

import os


def text_of(error: OSError) -> str:
    """Return the file and what the system says of it, without a number."""
    if error.strerror is None:
        return str(error)
    names = [error.filename, error.filename2]
    where = [str(os.fsdecode(name)) for name in names if isinstance(name, str | bytes)]
    return ": ".join([*where, error.strerror])
