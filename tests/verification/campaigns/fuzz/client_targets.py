"""Targets in programs: messages between members of a group, which any sender may imitate."""

import zlib
from typing import Any, Final

import msgspec

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import MemberId
from groupcomm.session.inbox import SEALED
from groupcomm_client.committed import markers
from groupcomm_client.coordination import (
    confirming,
    replica_messages,
    requests,
    rules,
    work_messages,
)
from groupcomm_client.coordination.mutex import resource
from groupcomm_client.coordination.mutex.acknowledged import AcknowledgedForm
from groupcomm_client.coordination.mutex.lamport import LamportForm
from groupcomm_client.coordination.replica_messages import Claim
from groupcomm_client.coordination.work_exchange import Claimed, pack, unpack_untrusted
from groupcomm_client.end_to_end import frames
from groupcomm_client.filters import envelope
from groupcomm_client.filters.causal_order import stamps
from groupcomm_client.filters.compressing import decompress_untrusted
from groupcomm_client.spread_api import flush_layer
from groupcomm_tools.web import frames as web_frames
from tests.verification.campaigns.fuzz.checks import Target, known, stable

_MOST: Final = 4096
_FORMS: Final = tuple(form(MemberId("#ann#a", 1), "g") for form in (AcknowledgedForm, LamportForm))
_pack: Final = msgspec.msgpack.encode


def _head(raw: bytes) -> None:
    """Decode after the magic, which the decoder's caller has checked."""
    head = frames.decode_head_untrusted(raw)
    assert frames.encode_head(*head) == SEALED + raw[len(SEALED) : frames.HEAD_BYTES]
    assert frames.read_key_and_number_untrusted(raw) == (head.key, head.number)


def _key_and_number(raw: bytes) -> None:
    key, number = frames.read_key_and_number_untrusted(raw)
    assert (key, number) == frames.decode_head_untrusted(raw)[2:]


def _frame(raw: bytes) -> None:
    """Decode a message of the kind that it names."""
    kind: Any = frames.Ready if frames.kind_of(raw) == frames.Kind.READY else frames.KeyFrame
    frame = frames.decode_frame_untrusted(raw, kind)
    assert frames.decode_frame_untrusted(frames.encode_frame(frame), kind) == frame


def _envelope(raw: bytes) -> None:
    opened = known(envelope.open_envelope_untrusted(raw))
    assert opened.prefix + bytes((opened.origin,)) + opened.data == raw
    assert opened.prefix.endswith(",".join(opened.names).encode())


def _decompress(raw: bytes) -> None:
    data = decompress_untrusted(raw, _MOST)
    assert len(data) <= _MOST
    assert zlib.decompress(raw) == data


def _stamp(raw: bytes) -> None:
    stamp, end = stamps.decode_stamp_untrusted(raw, 0)
    assert len(stamp.slots) < end <= len(raw)
    again = stamps.encode_stamp(stamp)
    found, _ = stamps.decode_stamp_untrusted(again, 0)
    assert stamps.encode_stamp(found) == again


def _word(raw: bytes) -> None:
    words = [form._decode_untrusted(raw) for form in _FORMS]
    for form, word in zip(_FORMS, words, strict=True):
        assert word is None or form._decode_untrusted(_pack(word)) == word
    known(words[0] or words[1])


def _told(raw: bytes) -> None:
    told = known(flush_layer.decode_flush_message_untrusted(raw))
    head = flush_layer._HEAD.pack(told.kind, told.key, raw[9])
    assert head + told.group.encode() + told.data == raw


def _mark(raw: bytes) -> None:
    confirming._number_untrusted(raw)


def _claim(raw: bytes) -> None:
    known(Claimed.decode_untrusted(Claim(Position(ViewId(1, "d", 1), 1, 0, 0, 0), (), None, raw)))


def _web(raw: bytes) -> None:
    """Decode a text frame if it begins as one, else a binary one; texts of browsers are UTF-8."""
    frame = raw.decode("utf-8", "replace") if raw[:1] == b"{" else raw
    request, data = web_frames.decode_untrusted(frame)
    assert isinstance(request, web_frames.Multicast) is isinstance(frame, bytes)
    assert raw.endswith(data)


def _ids(raw: bytes) -> None:
    claim = known(work_messages.decode_claim_untrusted(raw))
    ids = unpack_untrusted(claim.jobs)
    assert unpack_untrusted(pack(ids)) == sorted(set(ids))


CLIENT_TARGETS: Final[dict[str, Target]] = {
    "client.end_to_end.frames.head": _head,
    "client.end_to_end.frames.read_key_and_number": _key_and_number,
    "client.end_to_end.frames.frame": _frame,
    "client.filters.envelope.open_envelope": _envelope,
    "client.filters.compressing.decompress": _decompress,
    "client.filters.causal_order.stamps.mark": stable(
        stamps.decode_mark_untrusted, stamps.encode_mark
    ),
    "client.filters.causal_order.stamps.stamp": _stamp,
    "client.coordination.replica_messages": stable(
        replica_messages.decode_untrusted, replica_messages.encode
    ),
    "client.coordination.work_messages.command": stable(
        work_messages.decode_command_untrusted, work_messages.encode
    ),
    "client.coordination.work_messages.state": stable(
        work_messages.decode_state_untrusted, work_messages.encode
    ),
    "client.coordination.work_messages.piece": stable(
        work_messages.decode_piece_untrusted, work_messages.encode
    ),
    "client.coordination.work_messages.claim": stable(
        work_messages.decode_claim_untrusted, work_messages.encode
    ),
    "client.coordination.work_exchange": _claim,
    "client.coordination.work_exchange.unpack": _ids,
    "client.coordination.rules": stable(rules._decode_untrusted, _pack),
    "client.coordination.confirming.number": _mark,
    "client.coordination.requests": stable(requests._decode_untrusted, _pack),
    "client.coordination.mutex.form": _word,
    "client.coordination.mutex.resource.use": stable(resource.decode_use_untrusted, _pack),
    "client.committed.markers.marker": stable(
        lambda raw: markers.decode_marker_untrusted(markers.TYPE, raw), markers.encode_marker
    ),
    "client.spread_api.flush_layer.flush_message": _told,
    "tools.web.frames": _web,
}
