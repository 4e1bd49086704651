"""How a chat shows what happens."""

import re
from typing import Final

from groupcomm.events import Message
from groupcomm_client.commands.shared import tell
from groupcomm_client.conversation import Received

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def show(event: Received, *, as_json: bool) -> None:
    """Print an event for people, or as a line of JSON."""
    if as_json or not isinstance(event, Message):
        tell(event, as_json=as_json)
        return
    where = f"{', '.join(event.groups)} {event.level.name}"
    print(f"[{where}] {event.sender.name}: {readable(event.data)}", flush=True)


def readable(data: bytes) -> str:
    """Text that does nothing to a terminal but appear on it.

    Bytes that are not UTF-8, and control characters, show as escapes; further lines are indented.
    """
    text = data.decode(errors="backslashreplace")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text).replace("\n", "\n    ")
