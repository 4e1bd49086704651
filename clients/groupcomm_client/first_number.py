"""Where the numbers of questions begin, by which their answers are told apart."""

from secrets import randbits
from typing import Final

_BITS: Final = 62


def first_number(bits: int = _BITS) -> int:
    """Return a number, from 0 to 2**bits - 1, behind which a block or a machine numbers questions.

    It is a random one. Numbers that begin at 1 would meet late answers to an earlier block of the
    same session, or to an earlier program of the same name, which answer other questions.
    """
    return randbits(bits)
