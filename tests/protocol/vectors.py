"""Write the test vectors of docs/protocol from the code: ``python -m tests.protocol.vectors``.

Do so after a change of the wire that is meant, together with the chapter that describes it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm.names import check_daemon, check_destination, check_group, check_user
from tests.protocol import conversations
from tests.protocol.control_vectors import CONTROL
from tests.protocol.datagram_vectors import DATAGRAMS, TOKENS, hashes
from tests.protocol.families import Example, Family, Fields
from tests.protocol.joining_vectors import JOINING
from tests.protocol.packet_vectors import PACKETS
from tests.protocol.session_vectors import CLIENT, DAEMON

FOLDER: Final = Path(__file__).parents[2] / "docs" / "protocol" / "vectors"
_CHECKS: Final = {
    "user": check_user,
    "daemon": check_daemon,
    "group": check_group,
    "destination": check_destination,
}


def read_name(raw: bytes) -> tuple[Fields, bytes]:
    """Say which names a text can be; see Family."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None
    fields: Fields = {"text": text}
    for what, check in _CHECKS.items():
        try:
            check(text)
            fields[what] = True
        except LocalProtocolError:
            fields[what] = False
    return fields, text.encode()


NAMES: Final = Family(
    file="names",
    about="Texts, and whether each is a name of a user, a daemon, a group, or a destination.",
    read=read_name,
    good=[
        Example(name, about, text.encode())
        for name, about, text in (
            ("plain", "All but private names.", "ann"),
            ("not ASCII", "UTF-8 of any script.", "größe"),
            ("a space", "A space is visible.", "a b"),
            ("a sign inside", "No user or daemon has it.", "a#b"),
            ("a private name", "A destination only.", "#ann#a"),
            ("half a private name", "It lacks the daemon.", "#ann"),
            ("empty", "At least one byte.", ""),
            ("255 bytes", "The most.", "x" * 255),
            ("256 bytes", "One too many.", "x" * 256),
            ("a line end", "A control character.", "a\nb"),
            ("a zero-width space", "U+200B is a format character.", "a\u200bb"),
            ("text that turns", "U+202E would turn what follows.", "a\u202eb"),
            ("a joiner after a virama", "Hindi needs it.", "\u0915\u094d\u200d\u0937"),
            ("a joiner between letters", "It has no use there.", "a\u200db"),
            ("a non-joiner in Persian", "Between two Arabic letters.", "\u0645\u06cc\u200c\u062e"),
            ("a family", "Emoji joined to one.", "\U0001f468\u200d\U0001f469"),
            ("a line separator", "U+2028 begins a line.", "a\u2028b"),
        )
    ],
    bad=[Example("not UTF-8", "A byte that begins nothing.", b"\xff")],
)

FAMILIES: Final = (CLIENT, DAEMON, DATAGRAMS, PACKETS, CONTROL, JOINING, TOKENS, NAMES)


def contents() -> Iterator[tuple[str, Fields]]:
    """Yield the name and the content of each file."""
    for family in FAMILIES:
        yield family.file, family.content()
    yield "hashes", hashes()
    yield "conversations", conversations.content()


def text_of(content: Fields) -> str:
    """Return a file's text."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all files; remove those that no family writes any more."""
    FOLDER.mkdir(exist_ok=True)
    written = {f"{name}.json": text_of(content) for name, content in contents()}
    for old in FOLDER.glob("*.json"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text)
        print(f"docs/protocol/vectors/{name}: {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
