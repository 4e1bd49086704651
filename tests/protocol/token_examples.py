"""Tokens and rest notices of a ring of two daemons, of whom the first one holds all packets."""

from typing import Final

from msgspec import structs

from groupcomm.wire.columns import Far
from groupcomm.wire.token import RestNotice, Row, Token, decode_token_untrusted

KEY: Final = bytes(range(16))
TIME: Final = 1_700_000_000_000_000

_ROWS: Final = [
    Row(frontier=TIME, sent=700, held=[8, 9]),
    Row(frontier=TIME - 1, sent=0, held=[8, 7]),
]
TOKEN: Final = Token(
    ring=0,
    hop=5,
    last=9,
    last_sender=1,
    clock=TIME,
    burst=700,
    rows=_ROWS,
    requests=[(0, 3, 4), (1, 5, 5)],
    wanted=[1],
).encode(KEY)
COLUMNS_TOKEN: Final = structs.replace(
    decode_token_untrusted(TOKEN),
    rows=[structs.replace(row, held=[*row.held, 8 + at, 3]) for at, row in enumerate(_ROWS)],
    far=Far(first=1, told=2, passes=3),
).encode(KEY)
TELLING_TOKEN: Final = structs.replace(
    decode_token_untrusted(TOKEN),
    rows=[
        structs.replace(row, held=[*row.held, number])
        for row, number in zip(_ROWS, (9, 8), strict=True)
    ],
).encode(KEY)
REST: Final = RestNotice(ring=0, hop=5, holder=1, last=9, horizon=TIME, frontiers=[6, 7])
TELLING_REST: Final = structs.replace(REST, deliverable=8)
