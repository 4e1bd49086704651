"""How a chat shows what happens."""

from groupcomm.events import Message
from groupcomm.visible import visible
from groupcomm_client.conversation import Received
from groupcomm_tools.event_text import print_event


def show(event: Received, *, as_json: bool) -> None:
    """Print an event for people, or as a line of JSON."""
    if as_json or not isinstance(event, Message):
        print_event(event, as_json=as_json)
        return
    where = f"{', '.join(event.groups)} {event.level.name}"
    print(f"[{where}] {event.sender.name}: {readable(event.data)}", flush=True)


def readable(data: bytes) -> str:
    """Text that does nothing to a terminal but appear on it.

    Bytes that are not UTF-8, and what nobody would see, show as escapes; further lines are
    indented.
    """
    text = data.decode(errors="backslashreplace")
    return visible(text, kept="\n\t").replace("\n", "\n    ")
