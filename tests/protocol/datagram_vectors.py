"""Test vectors of datagrams and of what is computed by hashes: numbers, keys, digests, tokens."""

from types import SimpleNamespace
from typing import Any, Final

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig, Rekeying, lan
from groupcomm.config.shared import shared_settings
from groupcomm.config.view import DaemonId, Incarnation, View
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.joining.handshake import AskerHandshake, HostHandshake, public_of
from groupcomm.joining.token import Token, decode_token
from groupcomm.names import cluster_number, daemon_number
from groupcomm.security.exchange import Exchange
from groupcomm.security.keys import KeyRing, derive_key
from groupcomm.security.layout import HEAD, HEAD_BYTES, Channel
from groupcomm.security.opening import Opener
from groupcomm.security.plain import PlainOpener, PlainSealer
from groupcomm.security.sealing import PLACE, Sealer
from groupcomm.security.secret_sealing import SecretOpener, SecretSealer
from groupcomm.wire.joining import Open, Role
from groupcomm.wire.token import TokenRequest
from tests.protocol.control_vectors import CONTROL
from tests.protocol.families import Example, Family, Fields
from tests.protocol.packet_vectors import PACKETS

CLUSTER: Final = cluster_number("plant")
SENDER: Final = daemon_number("a")
RECEIVER: Final = daemon_number("b")
START: Final = Incarnation(3, 0x1122334455667788)
OWN: Final = (RECEIVER, Incarnation(1, 2))
KEYS: Final = KeyRing({1: bytes(range(32)), 2: bytes(range(32, 64))}, active=1)
SECRET: Final = bytes(range(64, 96))
EPOCH_S: Final = Rekeying().epoch_s


def _sealer(suite: int, counter: int) -> Any:
    numbers = (CLUSTER, SENDER, START)
    if suite == 0:
        return PlainSealer(*numbers, counter)
    if suite == 1:
        return Sealer(KEYS, *numbers, counter=counter)
    exchange = Exchange((SENDER, START), CLUSTER, lambda size: SECRET[:size])
    return SecretSealer(KEYS, *numbers, exchange, counter=counter)


def _opener(suite: int) -> Any:
    if suite == 0:
        return PlainOpener(CLUSTER, OWN)
    if suite == 1:
        return Opener(KEYS, CLUSTER, OWN)
    known: Any = SimpleNamespace(secret_of=lambda start, number: SECRET)
    return SecretOpener(KEYS, CLUSTER, OWN, known, Rekeying())


def seal(
    suite: int,
    packet: bytes,
    *,
    channel: int = 0,
    counter: int = 1,
    epoch: int = 0,
    one: bool = False,
) -> bytes:
    """Return a datagram of the sender, for all or for the receiver."""
    sealer, receiver = _sealer(suite, counter - 1), RECEIVER if one else None
    if suite == 0:
        return bytes(sealer.seal(packet, receiver))
    for number in range(epoch):
        sealer.tick((number + 1) * EPOCH_S)
    return bytes(sealer.seal(packet, Channel(channel), receiver))


def read_datagram(raw: bytes) -> tuple[Fields, bytes]:
    """Open a datagram as the receiver, which does not know its sender yet; see Family."""
    suite = raw[1] if len(raw) > 1 and raw[1] < 3 else 0
    opened = _opener(suite).open_untrusted(raw)
    _, _, scope, key_id, cluster, sender, restarts, random_id, counter = HEAD.unpack_from(raw)
    fields: Fields = {"suite": suite, "scope": scope, "key_id": key_id, "cluster": cluster}
    fields |= {"sender": sender, "restarts": restarts, "random_id": random_id, "counter": counter}
    channel = epoch = 0
    if suite:
        channel, epoch = PLACE.unpack_from(raw, HEAD_BYTES)
        fields |= {"channel": channel, "epoch": epoch}
        if opened.packet[0] != 8 or suite == 1:
            key = KEYS.keys[key_id]
            of_hello = suite == 1 or channel == Channel.HELLO
            secret = key if of_hello else key + SECRET
            fields["key"] = derive_key(secret, CLUSTER, SENDER, START, channel, epoch)
    fields["packet"] = opened.packet
    options = {"channel": channel, "counter": counter, "one": scope == 1}
    later = epoch if suite < 2 else epoch & 0xFFF
    return fields, seal(suite, opened.packet, epoch=0 if channel == 4 else later, **options)


_REQUEST: Final = TokenRequest(ring=0, daemon=1, hop=5).encode(bytes(range(16)))
_BEACON: Final = CONTROL.good[0].raw
_HELLO: Final = next(each.raw for each in PACKETS.good if each.name == "hello")
_INTRODUCTION: Final = next(each.raw for each in PACKETS.good if each.name == "introduction")
_PLAIN: Final = seal(0, _REQUEST)
_SEALED: Final = seal(1, _REQUEST, channel=1)


def _changed(raw: bytes, at: int, by: int = 1) -> bytes:
    return raw[:at] + bytes((raw[at] ^ by,)) + raw[at + 1 :]


DATAGRAMS: Final = Family(
    file="datagrams",
    about="Datagrams of one start of daemon a, as b opens them before that start is proved.",
    read=read_datagram,
    good=[
        Example("suite 0", "For all; CRC32C.", _PLAIN),
        Example(
            "suite 0 for one",
            "Its context has the receiver.",
            seal(0, _REQUEST, counter=2, one=True),
        ),
        Example("suite 1 on the ring", "For all; the nonce is the counter.", _SEALED),
        Example(
            "suite 1 for one",
            "Its context has the receiver.",
            seal(1, _REQUEST, channel=1, counter=2, one=True),
        ),
        Example(
            "suite 1, next epoch", "Another key.", seal(1, _REQUEST, channel=1, counter=3, epoch=1)
        ),
        Example("suite 1, control", "A key of this channel.", seal(1, _BEACON, channel=3)),
        Example("suite 1, hello", "A challenge.", seal(1, _HELLO, channel=4, one=True)),
        Example(
            "suite 2 on the ring",
            "A key that follows from the sender's secret, too.",
            seal(2, _REQUEST, channel=1),
        ),
        Example("suite 2, control", "Padded, and sealed twice.", seal(2, _BEACON, channel=3)),
        Example(
            "suite 2, introduction",
            "Sealed as in suite 1.",
            seal(2, _INTRODUCTION, channel=4, one=True),
        ),
    ],
    bad=[
        Example("44 bytes", "A head has 45.", _PLAIN[:44]),
        Example("a sealed one of 65 bytes", "Head, place and tag have 66.", _SEALED[:65]),
        Example("version 2", "There is version 1.", b"\2" + _PLAIN[1:]),
        Example("suite 3", "A receiver of suite 0 uses no other.", b"\1\3" + _PLAIN[2:]),
        Example("another cluster", "Its number differs.", _changed(_PLAIN, 5)),
        Example(
            "an own datagram",
            "The start is the receiver's.",
            PlainSealer(CLUSTER, *OWN).seal(_REQUEST),
        ),
        Example("a changed byte, suite 0", "The checksum differs.", _changed(_PLAIN, -6)),
        Example("a changed head, suite 1", "Heads are authenticated.", _changed(_SEALED, 44)),
        Example("a changed packet, suite 1", "Packets are, too.", _changed(_SEALED, 60)),
        Example(
            "scope 1 that was sealed for all",
            "The context differs.",
            _SEALED[:2] + b"\1" + _SEALED[3:],
        ),
        Example("channel 9", "There are 1 to 4.", _SEALED[:45] + b"\x09" + _SEALED[46:]),
        Example("key 9", "The key file has 1 and 2.", _SEALED[:3] + b"\0\x09" + _SEALED[5:]),
    ],
    given={
        "keys": {str(number): key for number, key in KEYS.keys.items()},
        "active key": KEYS.active,
        "secret of the sender in suite 2, number 1": SECRET,
        "cluster": "plant",
        "sender": {"name": "a", "number": SENDER},
        "receiver": {"name": "b", "number": RECEIVER, "restarts": 1, "random_id": 2},
    },
)

# ---- hashes ----


def compute(what: str, fields: Fields) -> bytes:
    """Return what the code computes from the fields of a vector of hashes."""
    match what:
        case "daemon number":
            return daemon_number(fields["name"]).to_bytes(8, "big")
        case "cluster number":
            return cluster_number(fields["name"]).to_bytes(8, "big")
        case "key of a view":
            return _view(fields).key
        case "digest of the settings that must be equal":
            return shared_settings(_config(fields)).digests[:8]
        case "id of the first roster":
            return _config(fields).roster.id
        case "key of a datagram":
            start = Incarnation(fields["restarts"], fields["random_id"])
            numbers = (
                fields["cluster"],
                fields["sender"],
                start,
                fields["channel"],
                fields["epoch"],
            )
            return derive_key(bytes.fromhex(fields["secret"]), *numbers)
        case "proofs and keys of a conversation for joining":
            return _conversation(fields)
        case _:
            raise AssertionError(f"nothing computes {what}")


def _conversation(fields: Fields) -> bytes:
    """Return the proofs of OPEN and OPENED, and the keys of ASK and REPLY."""
    raw = {name: bytes.fromhex(value) for name, value in fields.items() if isinstance(value, str)}
    numbers = {"cluster": fields["cluster"], "key_id": fields["key_id"], "role": Role.TOKEN}
    request = Open(
        salt=raw["salt"],
        credential=raw["credential"],
        public=public_of(raw["asker private"]),
        **numbers,
    )
    secrets = raw["asker private"], raw["token private"], public_of(raw["cluster private"])
    asker = AskerHandshake(request, *secrets)
    host = HostHandshake(asker.open, raw["cluster private"])
    opened, keys = host.accept(public_of(raw["token private"]), raw["host private"])
    assert asker.accept(opened) == keys
    return asker.open.proof + opened.proof + keys.asks + keys.replies


def _view(fields: Fields) -> View:
    daemons = tuple(DaemonId(name, Incarnation(*start)) for name, *start in fields["daemons"])
    return View(
        id=ViewId(fields["counter"], daemons[0].name, daemons[0].incarnation.random_id),
        daemons=daemons,
        rings=tuple(map(tuple, fields["rings"])),
        links=tuple((one, other) for one, other in fields["links"]),
    )


def _config(fields: Fields) -> CoreConfig:
    return CoreConfig(
        sites=tuple(map(tuple, fields["sites"])),
        link_delays_us=tuple((a, b, delay) for a, b, delay in fields["link delays"]),
        packet_limit=fields["packet_bytes"],
        timing=lan(),
    )


_VIEWS: Final[list[tuple[str, str, Fields]]] = [
    (
        "one daemon",
        "A view of one daemon, without links.",
        {"counter": 7, "daemons": [["a", 1, 255]], "rings": [[0]], "links": []},
    ),
    (
        "two rings",
        "Three daemons; one name has letters beyond ASCII, one has a quote.",
        {
            "counter": 1_700_000_000_000_000,
            "daemons": [["a", 1, 2**64 - 1], ["d'or", 2, 16], ["größe", 3, 0]],
            "rings": [[0, 1], [2]],
            "links": [[0, 2]],
        },
    ),
]
_VIEWS.append(
    (
        "names that are not ASCII",
        "A space beyond ASCII is escaped; a letter of Unicode 15 is not.",
        {
            "counter": 8,
            "daemons": [["a\u00a0b", 1, 2], ["\U0001e4d0", 3, 4]],
            "rings": [[0, 1]],
            "links": [],
        },
    )
)
_SITES: Final[Fields] = {
    "sites": [["a", "b"], ["c"]],
    "link delays": [[0, 1, 20_000]],
    "packet_bytes": 1340,
}
HASHES: Final[list[tuple[str, str, str, Fields]]] = [
    ("daemon a", "", "daemon number", {"name": "a"}),
    ("daemon größe", "The hash of UTF-8.", "daemon number", {"name": "größe"}),
    ("cluster plant", "", "cluster number", {"name": "plant"}),
    *((name, about, "key of a view", fields) for name, about, fields in _VIEWS),
    ("settings", "Timings of the preset lan.", "digest of the settings that must be equal", _SITES),
    ("roster", "It follows from the files.", "id of the first roster", _SITES),
    (
        "conversation for joining",
        "Proof of OPEN, proof of OPENED, key of ASK, key of REPLY.",
        "proofs and keys of a conversation for joining",
        {
            "cluster": CLUSTER,
            "key_id": 1,
            "credential": bytes(range(8)).hex(),
            "salt": bytes(range(16)).hex(),
            **{
                f"{name} private": bytes((number,) * 32).hex()
                for number, name in enumerate(("asker", "token", "cluster", "host"), 1)
            },
        },
    ),
    (
        "key of the ring channel",
        "HKDF-SHA256.",
        "key of a datagram",
        {
            "secret": KEYS.keys[1].hex(),
            "cluster": CLUSTER,
            "sender": SENDER,
            "restarts": START.restarts,
            "random_id": START.random_id,
            "channel": 1,
            "epoch": 0,
        },
    ),
]


def hashes() -> Fields:
    """Return the content of the file of hashes."""
    vectors = [
        {"name": name, "description": about, "computes": what, "fields": fields}
        | {"bytes": compute(what, fields).hex()}
        for name, about, what, fields in HASHES
    ]
    return {
        "about": "Numbers, keys and digests that are computed from other values.",
        "vectors": vectors,
    }


# ---- tokens ----


def read_token(raw: bytes) -> tuple[Fields, bytes]:
    """Read the text of a token; see Family."""
    try:
        found = decode_token(raw.decode())
    except (ConfigError, UnicodeDecodeError) as error:
        raise BadDatagram("token", str(error)) from None
    names = ("cluster", "name", "key_id", "id", "secret", "public")
    return {name: getattr(found, name) for name in names}, found.encode().encode()


_TOKEN: Final = Token(
    cluster="plant",
    name="c",
    key_id=1,
    id=bytes(range(8)),
    secret=bytes(range(16)),
    public=bytes(range(32)),
).encode()

TOKENS: Final = Family(
    file="tokens",
    about="Tokens with which a daemon asks for admission: the bytes are those of the text.",
    read=read_token,
    good=[Example("token", "For daemon c of cluster plant.", _TOKEN.encode())],
    bad=[
        Example(
            "a changed letter", "The checksum differs.", (_TOKEN[:20] + "A" + _TOKEN[21:]).encode()
        ),
        Example("another prefix", "gcj1. begins all.", b"gcj2." + _TOKEN[5:].encode()),
        Example("a cut token", "The end is missing.", _TOKEN[:-8].encode()),
    ],
)
