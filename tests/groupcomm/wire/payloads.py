"""Payloads of bundles, message by message."""

from collections.abc import Sequence

from groupcomm.wire.messages import decode_messages_untrusted, message_parts


def encode_messages(messages: Sequence[tuple[int, bytes]]) -> bytes:
    """The payload of messages, each (type, data)."""
    return b"".join(message_parts([(kind, [data]) for kind, data in messages]))


def decode_messages(payload: bytes | memoryview, count: int) -> list[tuple[int, bytes]]:
    """The (type, data) of each message; raises BadDatagram as the decoder does."""
    return list(zip(*decode_messages_untrusted(payload, count), strict=True))
