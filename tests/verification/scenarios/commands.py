"""The commands of scenarios: their syntax, and their effects on the state.

A parser reads a command's words and returns an action; no action is carried out while a text is
read, so all mistakes in it are found first.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from string import ascii_lowercase
from typing import Final, TypeVar

from groupcomm.level import ServiceLevel
from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.sim.cluster.clients import SimulatedClient
from groupcomm.sim.cluster.disk import Ailment
from groupcomm.sim.cluster.host import SimulatedHost
from groupcomm.sim.network.network import Pair
from groupcomm.sim.virtual_time import SECOND
from groupcomm.trace.recorders import FUSE_KINDS, Fuse
from tests.verification.scenarios.script import Words
from tests.verification.scenarios.state import PATIENCE_US, ScenarioState
from tests.verification.scenarios.transcript import PADDING, QUIET_PADDING, daemon_name, together
from tests.verification.simulation.rules import ALL, ANY, KINDS, ODD, Effect, Rule

Act = Callable[[ScenarioState], None]
Parser = Callable[[Words], Act]
_Item = TypeVar("_Item")

_LEVELS: Final = {level.name.lower(): level for level in ServiceLevel}
_COUNT: Final = re.compile(r"x(\d+)")
_SIZE: Final = re.compile(r"(\d+)(?:\.\.(\d+))?B")
_DISKS: Final = {
    "slow": Ailment.SLOW,
    "hangs": Ailment.HUNG,
    "full": Ailment.FULL,
    "fails": Ailment.BROKEN,
    "well": None,
}
_COUNTS: Final = {"all": ALL, "odd": ODD}


def _for_each(items: Iterable[_Item], do: Callable[[ScenarioState, _Item], None]) -> Act:
    def act(state: ScenarioState) -> None:
        for item in items:
            do(state, item)

    return act


# ---- time ----


def _run(words: Words) -> Act:
    lasts_us = words.duration()
    return lambda state: state.run(lasts_us)


def _await(words: Words) -> Act:
    sides = words.sides()
    limit_us = words.duration() if words.got("within") else PATIENCE_US
    return lambda state: state.await_views(sides, limit_us)


# ---- programs ----


def _connect(words: Words) -> Act:
    places = [words.user_at()]
    while words.more:
        places.append(words.user_at())
    return _for_each(places, lambda state, place: state.connect(*place))


def _members(words: Words) -> Act:
    group = words.groups()[0]
    places = [words.user_at()]
    while words.more:
        places.append(words.user_at())

    def act(state: ScenarioState) -> None:
        for user, daemon in places:
            state.enter(user, daemon, group)
        state.transcript.pop_lines()

    return act


def _users(do: Callable[[SimulatedClient], None], words: Words) -> Act:
    return _for_each(words.users(), lambda state, user: do(state.client(user)))


def _join(words: Words) -> Act:
    users, group = words.users(), words.groups()[0]
    return _for_each(users, lambda state, user: state.ask(user, group, join=True))


def _leave(words: Words) -> Act:
    users, group = words.users(), words.groups()[0]
    return _for_each(users, lambda state, user: state.ask(user, group, join=False))


def _send(words: Words) -> Act:
    users, groups = words.users(), words.groups()
    level = _LEVELS[words.one_of(tuple(_LEVELS))]
    counts, sizes, flags = range(0), range(0), set()
    expected = "x20, 3000B, 1200..1300B, ordered, discard or ':'"
    while words.more:
        word = words.pop(expected)
        count, size = _COUNT.fullmatch(word), _SIZE.fullmatch(word)
        if word in ("ordered", "discard"):
            flags.add(word)
        elif count:
            counts = range(1, int(count[1]) + 1)
        elif size:
            sizes = range(int(size[1]), int(size[2] or size[1]) + 1)
        else:
            words.fail(expected, word)
    text = words.text()
    padding = PADDING
    if len(sizes) > 1:
        padding = QUIET_PADDING
        parcels = [(f"{text} {size}", size) for size in sizes]
    else:
        texts = [f"{text} {number}" for number in counts] or [text]
        parcels = [(line, max(sizes, default=0)) for line in texts]

    def act(state: ScenarioState) -> None:
        for line, size in parcels:
            for user in users:
                state.send(
                    user,
                    groups,
                    level,
                    line,
                    size=size,
                    padding=padding,
                    ordered="ordered" in flags,
                    discard="discard" in flags,
                )

    return act


def _load(words: Words) -> Act:
    users, groups = words.users(), words.groups()
    level = _LEVELS[words.one_of(tuple(_LEVELS))]
    words.one_of(("every",))
    every_us = words.duration()
    return _for_each(users, lambda state, user: state.load(user, groups, level, every_us))


# ---- paths ----


def _paths(do: Callable[[ScenarioState, tuple[Pair, ...]], None], words: Words) -> Act:
    pairs = words.paths()
    return lambda state: do(state, pairs)


def _split(words: Words) -> Act:
    sides = words.sides()
    if len(sides) == 1:
        words.fail("'|'")
    return lambda state: state.split(sides)


def _rule(effect: Effect, words: Words) -> Act:
    expected = "all, odd, or a number of packets"
    word = words.pop(expected)
    if word not in _COUNTS and not word.isdecimal():
        words.fail(expected, word)
    count = _COUNTS[word] if word in _COUNTS else int(word)
    kinds = tuple(words.pop("kinds of packets such as token,rest").split(","))
    for kind in kinds:
        if kind not in KINDS and kind != ANY:
            words.fail(f"any, or of {', '.join(KINDS)}", kind)
    pairs = words.paths()
    later_us = words.duration() if effect in (Effect.COPY, Effect.DELAY) else 0
    rule = Rule(effect, kinds, count, later_us)
    return lambda state: state.rule(pairs, rule)


def _release(words: Words) -> Act:
    return _for_each(words.paths(), lambda state, pair: state.paths[pair].flush())


# ---- daemons ----


def _crash(words: Words) -> Act:
    daemons = words.daemons()
    if words.got("at"):
        kind = words.one_of(FUSE_KINDS)
        return _for_each(daemons, lambda state, daemon: _set_fuse(state, daemon, kind))
    if words.got("after"):
        count = words.number("a number of datagrams")
        words.one_of(("datagrams",))
        return _for_each(daemons, lambda state, daemon: _last_words(state, daemon, count))
    return _for_each(daemons, lambda state, daemon: state.host(daemon).kill())


def _set_fuse(state: ScenarioState, daemon: int, kind: str) -> None:
    state.process(daemon).probe.fuse = Fuse(kind)


def _last_words(state: ScenarioState, daemon: int, count: int) -> None:
    state.process(daemon).sends_left = count


def _start(words: Words) -> Act:
    daemons = words.daemons()
    disk = ""
    if words.got("with"):
        words.one_of(("disk",))
        disk = words.one_of(("lost", "old"))
    return _for_each(daemons, lambda state, daemon: state.start(daemon, disk))


def _each(do: Callable[[ScenarioState, int], None], words: Words) -> Act:
    return _for_each(words.daemons(), do)


def _pause(words: Words) -> Act:
    daemons, lasts_us = words.daemons(), words.duration()
    return _for_each(daemons, lambda state, daemon: state.pause(daemon, lasts_us))


def _slow(words: Words) -> Act:
    daemons, factor = words.daemons(), words.number("how many times slower")
    return _for_each(daemons, lambda state, daemon: state.host(daemon).set_step(factor))


def _clock(words: Words) -> Act:
    daemons, shift_us = words.daemons(), words.shift()
    return _for_each(daemons, lambda state, daemon: state.clocks[daemon].shift(shift_us))


def _file(words: Words) -> Act:
    daemons = words.daemons()
    what = words.one_of(("lists", "timeout", "packets", "right"))
    if what == "lists":
        listed = words.daemons()
        return _for_each(daemons, lambda state, daemon: state.list_only(daemon, listed))
    if what == "timeout":
        timeout_s = words.duration() / SECOND
        return _for_each(daemons, lambda state, daemon: state.set_timeout(daemon, timeout_s))
    if what == "packets":
        size = words.number("a number of bytes")
        words.one_of(("bytes",))
        return _for_each(daemons, lambda state, daemon: state.set_config(daemon, packet_limit=size))
    return _for_each(daemons, lambda state, daemon: state.set_config(daemon))


def _disk(words: Words) -> Act:
    daemons = words.daemons()
    how = words.one_of(tuple(_DISKS))
    ailment = _DISKS[how]
    write_us = words.duration() if ailment is Ailment.SLOW else 0

    def act(state: ScenarioState, daemon: int) -> None:
        disk = state.cluster.daemons[daemon].disk
        if ailment is None:
            disk.recover()
        else:
            disk.ail(ailment, write_us)

    return _for_each(daemons, act)


# ---- the end ----


def _core(words: Words) -> Act:
    daemons = words.daemons()
    return lambda state: setattr(state, "core", daemons)


def _unhealed(words: Words) -> Act:
    return lambda state: setattr(state, "healed", False)


COMMANDS: Final[dict[str, Parser]] = {
    "run": _run,
    "await": _await,
    "members": _members,
    "connect": _connect,
    "disconnect": partial(_users, SimulatedClient.disconnect),
    "kill": partial(_users, SimulatedClient.crash),
    "deafen": partial(_users, lambda client: client.set_reading(False)),
    "undeafen": partial(_users, lambda client: client.set_reading(True)),
    "join": _join,
    "leave": _leave,
    "send": _send,
    "load": _load,
    "unload": lambda words: ScenarioState.end_loads,
    "cut": partial(_paths, ScenarioState.cut),
    "mend": partial(_paths, ScenarioState.mend),
    "split": _split,
    "heal": lambda words: ScenarioState.mend_all,
    **{effect.value: partial(_rule, effect) for effect in Effect},
    "release": _release,
    "crash": _crash,
    "start": _start,
    "stop": partial(_each, lambda state, daemon: state.process(daemon).leave()),
    "clone": partial(_each, lambda state, daemon: state.host(daemon).start_clone()),
    "unclone": partial(_each, lambda state, daemon: state.host(daemon).kill_clone()),
    "pause": _pause,
    "slow": _slow,
    "clock": _clock,
    "file": _file,
    "disk": _disk,
    "core": _core,
    "unhealed": _unhealed,
}
"""All commands but ``daemons`` and ``show``, which run.py knows."""


def parse(words: Words) -> Act:
    """Return the effect of a command.

    Raises:
        ScenarioError: it is written wrongly.
    """
    name = words.pop("a command")
    parser = COMMANDS.get(name)
    if parser is None:
        words.fail(f"a command (daemons, show, {', '.join(COMMANDS)})", name)
    act = parser(words)
    words.end()
    return act


def _alike(facts: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, what in facts:
        if what:
            alike.setdefault(what, []).append(name)
    return [line for what, names in alike.items() for line in together(names, what)]


def _of_daemons(
    tell: Callable[[ScenarioState, SimulatedHost], Iterable[str]], state: ScenarioState
) -> list[str]:
    return _alike(
        (ascii_lowercase[host.index], tuple(tell(state, host)))
        for host in state.cluster.daemons
        if host.process is not None
    )


def _view(state: ScenarioState, host: SimulatedHost) -> list[str]:
    view = host.core.view
    if view is None:
        return ["no view"]
    names = [daemon_name(state.cluster.identities[daemon]) for daemon in view.daemons]
    rings = " | ".join(" ".join(names[member] for member in ring) for ring in view.rings)
    left_out = host.core.status(host.clock.monotonic(state.cluster.loop.now)).no_room
    return [
        ("view" if host.core.state is MembershipState.OPERATIONAL else "was in view")
        + f" {rings}"
        + (f", no room for {' '.join(left_out)}" if left_out else "")
    ]


def _groups(state: ScenarioState, host: SimulatedHost) -> list[str]:
    operation = host.core.view_state
    if operation is None or not operation.delivery.complete:
        return ["no groups yet"]
    table = operation.delivery.groups.table
    return [
        f"{group} = {' '.join(state.label(str(id)) for id in table.member_ids(group))}"
        for group in sorted(table.groups)
    ] or ["no groups"]


def _kept(state: ScenarioState, host: SimulatedHost) -> list[str]:
    view_state = host.core.view_state
    streams = [] if view_state is None else view_state.streams
    packets = sum(len(stream.packets) for stream in streams)
    output = sum(session.output_bytes for session in host.core.sessions.by_connection.values())
    kept = ["packets"] * bool(packets) + ["output of programs"] * bool(output)
    return [f"keeps {' and '.join(kept) or 'nothing'}"]


def _reasons(state: ScenarioState, host: SimulatedHost) -> list[str]:
    assert host.process is not None
    reasons = host.core.membership.reasons
    new = reasons - state.reasons_shown.get(host.process.name, Counter[GatherReason]())
    state.reasons_shown[host.process.name] = Counter(reasons)
    return [f"gathered: {', '.join(sorted(reason.name for reason in new))}"] if new else []


def _counters(state: ScenarioState, host: SimulatedHost) -> list[str]:
    counters = host.core.counters
    names = [
        f"rejected as {reason}" for reason, count in sorted(counters.rejected.items()) if count
    ]
    names += [name for name in ("foreign", "stale", "violations") if getattr(counters, name)]
    return [", ".join(names) or "dropped nothing"]


def _files(state: ScenarioState, host: SimulatedHost) -> list[str]:
    core, now = host.core, host.clock.monotonic(state.cluster.loop.now)
    letters = {each.name: ascii_lowercase[each.index] for each in state.cluster.daemons}
    return [
        f"file differs from that of {' '.join(letters[name] for name in other.daemons)} in"
        f" {', '.join(found.key for found in other.differences)} ({other.verdict.name.lower()})"
        for other in core.membership.comparison.others(core.view, now)
    ] or ["knows of no other file"]


def _rules(state: ScenarioState) -> list[str]:
    return _alike(
        (f"{ascii_lowercase[pair[0]]}>{ascii_lowercase[pair[1]]}", tuple(told))
        for pair, path in sorted(state.paths.items())
        if (told := [rule.report() for rule in path.rules])
    )


def _jumps(state: ScenarioState, host: SimulatedHost) -> list[str]:
    jumps = host.core.physical.jumps
    return [f"saw its wall clock jump, {jumps} in all"] if jumps else []


SHOWS: Final[dict[str, Callable[[ScenarioState], list[str]]]] = {
    "views": lambda state: _of_daemons(_view, state),
    "groups": lambda state: _of_daemons(_groups, state),
    "kept": lambda state: _of_daemons(_kept, state),
    "reasons": lambda state: _of_daemons(_reasons, state),
    "counters": lambda state: _of_daemons(_counters, state),
    "files": lambda state: _of_daemons(_files, state),
    "jumps": lambda state: _of_daemons(_jumps, state),
    "rules": _rules,
}
"""The functions that show something, by its name."""
