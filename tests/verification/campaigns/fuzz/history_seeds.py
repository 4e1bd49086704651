"""Valid inputs for the targets in archives and subscribers."""

from collections.abc import Iterator
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from groupcomm.events import DaemonView, Message
from groupcomm.level import ServiceLevel
from groupcomm_archive import comparing
from groupcomm_archive.digests import range_of
from groupcomm_client.history import channel
from groupcomm_client.history import frames as history
from groupcomm_client.history.cursors import (
    CursorAnswer,
    CursorEntry,
    CursorExchange,
    CursorList,
    FindCursor,
    ListCursors,
    PutCursor,
)
from groupcomm_client.history.places import NOWHERE, Line
from groupcomm_client.history.refusals import Refusal
from tests.groupcomm_client.history.pieces import piece_of
from tests.verification.campaigns.fuzz.history_targets import (
    ANN,
    AT,
    KEY,
    ME,
    PIECES,
    later,
    view_of,
)

_GROUPS: Final = ("g", "größe")
_ID: Final = bytes(range(history.CHANNEL_ID_BYTES))


def _pieces() -> list[history.Piece]:
    events: list[Line] = [
        DaemonView(id=AT.view, daemons=("a", "größe"), majority=True),
        *(Message(ANN, n, _GROUPS, ServiceLevel.SAFE, n, b"x", AT, n) for n in (0, 1)),
        view_of("größe", AT),
    ]
    return [
        piece_of(part, 2, 0, NOWHERE, AT, is_end=bool(part)) for part in ([], events[1:2], events)
    ]


def _frames() -> Iterator[history.Frame]:
    """Yield messages of each kind between subscribers and archives."""
    entry = CursorEntry("c", _GROUPS, 1, AT, ANN.name)
    yield history.Find(1, _GROUPS)
    yield history.Find(1, ("g", "h"))
    yield history.Offer(1, True, ((NOWHERE, AT),))
    yield history.Offer(1, False, ((AT, later(9)),), (NOWHERE, AT))
    yield history.Read(2, ("g",), AT, None, 4)
    yield history.Read(2, ("g",), None, 2**50, 4, True, True)
    yield history.More(2, 8)
    yield history.Stop(2)
    yield history.Channel(2, _ID, KEY, ("@archive", "10.0.0.1:4810"))
    yield FindCursor(3, "c", _GROUPS)
    yield PutCursor(3, entry)
    yield CursorAnswer(3, (ME, ANN), entry, "")
    yield ListCursors(4)
    yield CursorList(4, (ME, ANN), (entry, CursorEntry("d", ("g",), 2, None)))
    yield CursorExchange(AT, (ANN,), (entry,))
    yield Refusal(5, "g", "cert:ann", "a")
    yield from _pieces()


def _comparisons() -> Iterator[comparing.Comparing]:
    """Yield messages of each kind about digests and compaction."""
    span = range_of(AT).span
    claims = tuple(
        comparing.Claim("g", AT.view, number, is_whole, 1, AT, b"digest")
        for number, is_whole in ((span, True), (span + 1, True), (span, False))
    )
    yield comparing.Claims(True, claims)
    yield comparing.Ask(6, ("g", "h"))
    compared = comparing.Compared(ANN.name, AT, 3, ((NOWHERE, AT),))
    report = comparing.GroupReport("g", ((NOWHERE, AT),), AT, (compared,))
    yield comparing.Report(6, True, (report,))
    yield comparing.Compact("g", AT)


def _sealed() -> bytes:
    """Return a channel with all pieces; the second one comes in two chunks."""
    one, two, three = PIECES
    sealed = b""
    for count, (chunk, more) in enumerate(((one, 0), (two[:9], 1), (two[9:], 0), (three, 0))):
        length = (more << 31 | len(chunk) + 16).to_bytes(4, "big")
        nonce = bytes(4) + count.to_bytes(8, "big")
        sealed += length + AESGCM(KEY).encrypt(nonce, chunk, length)
    return sealed


def history_seeds() -> Iterator[tuple[str, bytes]]:
    """Yield names of targets, and inputs for them."""
    for piece in _pieces():
        yield "client.history.frames.events_of", history.encode(piece)
    for frame in _frames():
        for target in ("client.history.frames", "client.history.subscriber", "archive"):
            yield target, history.encode(frame)
    for said in _comparisons():
        for target in ("archive.comparing.comparing", "archive"):
            yield target, comparing.encode_comparing(said)
    yield "client.history.channel.channel_of", channel.hello(_ID, KEY)
    for size in (17, channel.CHUNK_BYTES + 16, 1 << 31 | 100):
        yield "client.history.channel.expect", size.to_bytes(4, "big")
    yield "client.history.channel.open", _sealed()
