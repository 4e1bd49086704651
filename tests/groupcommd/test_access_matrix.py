"""Every verb, for every kind of name, at every time: decided as the reference of twenty lines does.

What programs send is written here byte by byte, as libraries refuse to send names that are none.
"""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final, cast

import attrs
import pytest

from groupcomm.engine import ClientBytes, ClientDismissed, ClientOpened, ProgramSettings
from groupcomm.events import Closed, GroupView, Message, Refused
from groupcomm.groups.table import GroupTable
from groupcomm.level import ServiceLevel
from groupcomm.security.access import Verb
from groupcomm.session.frames import encode_bundle_head
from groupcomm.wire.bundle import BundleKind, encode_body
from groupcommd.operators.status import DaemonParts, answer
from tests.groupcomm.engine.cluster import Cluster, Program
from tests.groupcomm.security.test_access import Row, access_of, reference
from tests.groupcomm.wire.payloads import encode_messages

AGREED: Final = ServiceLevel.AGREED
ANN: Final = "cert:ann"

GROUPS: Final = ("chat", "cha", "chat2", "*", "caf\u00e9", "cafe\u0301", "x" * 255)
PRIVATE: Final = ("#bob#b", "#nobody#b", "#bob#nowhere")
NO_NAMES: Final = (
    *(b"", b"a\0b", b"chat\0", b"chat\n", b"\x7f"),
    *(b"\xff\xfe", b"\xed\xa0\x80", b"#", b"##", b"#a#", b"#a#b#c", b"\xe9" * 255),
    *("chat\u202e".encode(), "#bob\u200b#b".encode()),
)
"""Invisible characters, surrogates, invalid UTF-8, control characters, half a private name."""

NAMES: Final = (*(name.encode() for name in (*GROUPS, *PRIVATE)), *NO_NAMES)

ALL: Final = list(Verb)
RULES: Final[dict[str, Sequence[Row]]] = {
    "none": [],
    "all": [(["cert:*"], ["*", "#*"], ALL)],
    "nobody": [(["token:*"], ["*"], ALL)],
    "join some": [(["*"], ["chat*", "cafe\u0301"], [Verb.JOIN])],
    "send some": [([ANN], ["cha", "chat", "caf\u00e9"], [Verb.SEND]), ([ANN], ["chat2"], ALL)],
    "private": [([ANN], ["#bob#*"], [Verb.UNICAST, Verb.JOIN])],
    "see": [(["*"], ["chat", "x*"], [Verb.JOIN, Verb.SEE_MEMBERS])],
    "admin": [(["*:ann"], ["none"], [Verb.ADMIN])],
}


def named(kind: BundleKind, names: Sequence[bytes], data: bytes, number: int = 1) -> bytes:
    """A frame of a program that asks for something of these names, whatever bytes they are."""
    stand_ins = tuple("z" * len(name) for name in names)
    payload = b"" if kind is BundleKind.JOIN else encode_messages([(0, data)])
    body = encode_body(kind, int(AGREED), 0, number, stand_ins, payload)
    written = b"".join(bytes((len(name),)) + b"z" * len(name) for name in names)
    really = b"".join(bytes((len(name),)) + name for name in names)
    body = body.replace(written, really, 1)
    return encode_bundle_head(len(body), ordered=False) + body


class Attempt:
    """A program that asks for one thing, and what comes of it."""

    def __init__(self, stage: "Stage", frame: bytes) -> None:
        stage.attempts += 1
        self.program = Program(stage.core, f"u{stage.attempts}")
        stage.cluster.programs.append(self.program)
        self.opened = ClientOpened(self.program.connection, ANN)
        self.frame = ClientBytes(self.program.connection, frame)

    @property
    def allowed(self) -> bool:
        return not any(isinstance(event, Refused | Closed) for event in self.program.events)


class Stage:
    """Two daemons in a view; at b a program is in all groups, at a others ask for something."""

    def __init__(self) -> None:
        self.cluster = Cluster("ab")
        self.cluster.start("ab")
        self.cluster.run(1.0)
        self.attempts = 0
        self.bob = self.cluster.connect("b", "bob", "unix:bob")
        for group in GROUPS:
            self.bob.session.join(group)
        self.cluster.run(0.3)

    @property
    def core(self) -> Any:
        return self.cluster.cores["a"]

    def govern(self, rows: Sequence[Row]) -> None:
        self.cluster.step("a", [], [ProgramSettings(access=access_of(rows))])

    def merge(self) -> None:
        self.cluster.isolate("a", "b")
        self.cluster.run(3.0)
        self.cluster.cut.clear()
        self.cluster.run(5.0)
        assert self.cluster.members("a") == "ab"

    def make(self, attempts: Sequence[Attempt], *, hello: bool = True) -> None:
        self.bob.events.clear()
        self.cluster.step("a", [], [attempt.opened for attempt in attempts])
        if hello:
            self.cluster.run(0.1)
        self.cluster.step("a", [], [attempt.frame for attempt in attempts])
        self.cluster.run(0.2)

    def members(self, group: str) -> set[str]:
        table = cast("GroupTable", self.cluster.cores["b"].sessions._table)
        return {member.id.name for member in table.groups.get(group, ())}

    def heard(self) -> set[bytes]:
        return {event.data for event in self.bob.events if isinstance(event, Message)}

    def end(self) -> None:
        """All that have asked for something go."""
        gone = [ClientDismissed(each.connection, -1, "over") for each in self.cluster.programs[1:]]
        self.cluster.step("a", [], gone)
        self.cluster.run(0.2)
        self.cluster.programs = [self.bob]


def expected(rows: Sequence[Row], verb: Verb, name: bytes) -> bool:
    try:
        return reference(rows, ANN, verb, name.decode())
    except UnicodeDecodeError:
        return False


def is_private(name: bytes) -> bool:
    return name.startswith(b"#")


def check_all(stage: Stage, rows: Sequence[Row]) -> None:
    """One program for each verb and name, and for two destinations at once."""
    joins = {name: Attempt(stage, named(BundleKind.JOIN, [name], b"")) for name in NAMES}
    sends, twos = {}, {}
    for at, name in enumerate(NAMES):
        sends[name] = Attempt(stage, named(BundleKind.MESSAGES, [name], b"one %d" % at))
        pair = [b"chat", name]
        twos[name] = Attempt(stage, named(BundleKind.MESSAGES, pair, b"two %d" % at))
    stage.make([*joins.values(), *sends.values(), *twos.values()])
    heard, may_chat = stage.heard(), expected(rows, Verb.SEND, b"chat")
    for at, name in enumerate(NAMES):
        may_join = expected(rows, Verb.JOIN, name)
        assert joins[name].allowed == may_join, name
        who = f"#{joins[name].program.session.user}#a"
        assert (who in stage.members(name.decode(errors="replace"))) == may_join
        may_send = expected(rows, Verb.UNICAST if is_private(name) else Verb.SEND, name)
        assert sends[name].allowed == may_send, name
        reaches = may_send and name not in (b"#nobody#b", b"#bob#nowhere")
        assert (b"one %d" % at in heard) == reaches
        assert twos[name].allowed == (may_send and may_chat), name
        assert (b"two %d" % at in heard) == (may_send and may_chat)
        if may_join:
            check_view(joins[name], expected(rows, Verb.SEE_MEMBERS, name) or not rows)
    check_questions(stage, rows)
    stage.end()


def check_view(join: Attempt, may_see: bool) -> None:
    """A program that may not see members sees itself alone."""
    views = [event for event in join.program.events if isinstance(event, GroupView)]
    seen = {member.name for member in views[-1].members}
    assert ("#bob#b" in seen) == may_see


def check_questions(stage: Stage, rows: Sequence[Row]) -> None:
    """The queries that a program makes of its daemon; invalid names have no answer."""
    nothing: Any = None
    config: Any = SimpleNamespace(access=access_of(rows))
    others = {each.name: nothing for each in attrs.fields(DaemonParts)}
    parts = DaemonParts(**{**others, "config": config, "core": stage.core})

    def allowed(question: str) -> bool:
        return "refused" not in json.loads(b"".join(answer(parts, question, ANN)))

    may_all = reference(rows, ANN, Verb.ADMIN, "")
    assert allowed("groups") == may_all
    for raw in (*NAMES, b"x" * 256):
        name = raw.decode(errors="replace")
        may_see = may_all or not rows or reference(rows, ANN, Verb.SEE_MEMBERS, name)
        assert allowed(f"members {name}") == may_see, name


@pytest.mark.parametrize("first", RULES)
def test_every_request_is_decided_as_the_reference(first: str) -> None:
    """After the hello, after a reload with other rules, and after a merge."""
    stage, names = Stage(), list(RULES)
    other = names[(names.index(first) + 3) % len(names)]
    stage.govern(RULES[first])
    check_all(stage, RULES[first])
    stage.govern(RULES[other])
    check_all(stage, RULES[other])
    stage.merge()
    check_all(stage, RULES[other])


@pytest.mark.parametrize("rules", ["none", "all"])
def test_before_its_hello_a_program_may_do_nothing_whatever_the_rules(rules: str) -> None:
    stage = Stage()
    stage.govern(RULES[rules])
    attempts = [
        Attempt(stage, named(kind, names, b"too early"))
        for kind in (BundleKind.JOIN, BundleKind.MESSAGES)
        for name in NAMES
        for names in ([name], [b"chat", name])
        if kind is BundleKind.MESSAGES or len(names) == 1
    ]
    stage.make(attempts, hello=False)
    for attempt in attempts:
        assert any(isinstance(event, Closed) for event in attempt.program.events)
    assert b"too early" not in stage.heard()
    assert stage.members("chat") == {"#bob#b"}
    assert stage.core.sessions.access_control.refusals.total() == 0, "nothing is even looked up"


def test_longer_names_have_no_form_on_the_wire() -> None:
    with pytest.raises(ValueError, match="256"):
        named(BundleKind.JOIN, [b"x" * 256], b"")
