"""The commands of scenarios: how each is written, and what it does to the scene.

A parser takes a command's words and returns what is to be done; nothing is done while a text is
read, so all mistakes in it are found first.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

from groupcomm.level import ServiceLevel
from groupcomm.sim.clients import Client
from groupcomm.sim.disk import Ailment
from groupcomm.sim.loop import SECOND
from groupcomm.sim.network import Pair
from groupcomm.sim.scenario.rules import ALL, ANY, KINDS, ODD, Effect, Rule
from groupcomm.sim.scenario.scene import PATIENCE_US, Scene
from groupcomm.sim.scenario.story import PADDING, QUIET_PADDING
from groupcomm.sim.scenario.words import Words
from groupcomm.trace.recorders import FUSE_KINDS, Fuse

Act = Callable[[Scene], None]
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


def _for_each(items: Iterable[_Item], do: Callable[[Scene, _Item], None]) -> Act:
    def act(scene: Scene) -> None:
        for item in items:
            do(scene, item)

    return act


# ---- time ----


def _run(words: Words) -> Act:
    lasts_us = words.duration()
    return lambda scene: scene.run(lasts_us)


def _await(words: Words) -> Act:
    sides = words.sides()
    limit_us = words.duration() if words.got("within") else PATIENCE_US
    return lambda scene: scene.await_views(sides, limit_us)


# ---- programs ----


def _connect(words: Words) -> Act:
    places = [words.user_at()]
    while words.more:
        places.append(words.user_at())
    return _for_each(places, lambda scene, place: scene.connect(*place))


def _members(words: Words) -> Act:
    group = words.groups()[0]
    places = [words.user_at()]
    while words.more:
        places.append(words.user_at())

    def act(scene: Scene) -> None:
        for user, daemon in places:
            scene.enter(user, daemon, group)
        scene.story.take()

    return act


def _users(do: Callable[[Client], None], words: Words) -> Act:
    return _for_each(words.users(), lambda scene, user: do(scene.client(user)))


def _join(words: Words) -> Act:
    users, group = words.users(), words.groups()[0]
    return _for_each(users, lambda scene, user: scene.ask(user, group, join=True))


def _leave(words: Words) -> Act:
    users, group = words.users(), words.groups()[0]
    return _for_each(users, lambda scene, user: scene.ask(user, group, join=False))


def _send(words: Words) -> Act:
    users, groups = words.users(), words.groups()
    level = _LEVELS[words.one_of(tuple(_LEVELS))]
    counts, sizes, flags = range(0), range(0), set()
    expected = "x20, 3000B, 1200..1300B, ordered, discard or ':'"
    while words.more:
        word = words.take(expected)
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

    def act(scene: Scene) -> None:
        for line, size in parcels:
            for user in users:
                scene.send(
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
    return _for_each(users, lambda scene, user: scene.load(user, groups, level, every_us))


# ---- paths ----


def _paths(do: Callable[[Scene, tuple[Pair, ...]], None], words: Words) -> Act:
    pairs = words.paths()
    return lambda scene: do(scene, pairs)


def _split(words: Words) -> Act:
    sides = words.sides()
    if len(sides) == 1:
        words.fail("'|'")
    return lambda scene: scene.split(sides)


def _rule(effect: Effect, words: Words) -> Act:
    expected = "all, odd, or a number of packets"
    word = words.take(expected)
    if word not in _COUNTS and not word.isdecimal():
        words.fail(expected, word)
    count = _COUNTS[word] if word in _COUNTS else int(word)
    kinds = tuple(words.take("kinds of packets such as token,rest").split(","))
    for kind in kinds:
        if kind not in KINDS and kind != ANY:
            words.fail(f"any, or of {', '.join(KINDS)}", kind)
    pairs = words.paths()
    later_us = words.duration() if effect in (Effect.COPY, Effect.DELAY) else 0
    rule = Rule(effect, kinds, count, later_us)
    return lambda scene: scene.rule(pairs, rule)


def _release(words: Words) -> Act:
    return _for_each(words.paths(), lambda scene, pair: scene.paths[pair].flush())


# ---- daemons ----


def _crash(words: Words) -> Act:
    daemons = words.daemons()
    if words.got("at"):
        kind = words.one_of(FUSE_KINDS)
        return _for_each(daemons, lambda scene, daemon: _set_fuse(scene, daemon, kind))
    if words.got("after"):
        count = words.number("a number of datagrams")
        words.one_of(("datagrams",))
        return _for_each(daemons, lambda scene, daemon: _last_words(scene, daemon, count))
    return _for_each(daemons, lambda scene, daemon: scene.host(daemon).kill())


def _set_fuse(scene: Scene, daemon: int, kind: str) -> None:
    scene.process(daemon).probe.fuse = Fuse(kind)


def _last_words(scene: Scene, daemon: int, count: int) -> None:
    scene.process(daemon).sends_left = count


def _start(words: Words) -> Act:
    daemons = words.daemons()
    disk = ""
    if words.got("with"):
        words.one_of(("disk",))
        disk = words.one_of(("lost", "old"))
    return _for_each(daemons, lambda scene, daemon: scene.start(daemon, disk))


def _each(do: Callable[[Scene, int], None], words: Words) -> Act:
    return _for_each(words.daemons(), do)


def _pause(words: Words) -> Act:
    daemons, lasts_us = words.daemons(), words.duration()
    return _for_each(daemons, lambda scene, daemon: scene.pause(daemon, lasts_us))


def _slow(words: Words) -> Act:
    daemons, factor = words.daemons(), words.number("how many times slower")
    return _for_each(daemons, lambda scene, daemon: scene.host(daemon).set_step(factor))


def _clock(words: Words) -> Act:
    daemons, shift_us = words.daemons(), words.shift()
    return _for_each(daemons, lambda scene, daemon: scene.clocks[daemon].shift(shift_us))


def _file(words: Words) -> Act:
    daemons = words.daemons()
    what = words.one_of(("lists", "timeout", "packets", "right"))
    if what == "lists":
        listed = words.daemons()
        return _for_each(daemons, lambda scene, daemon: scene.list_only(daemon, listed))
    if what == "timeout":
        timeout_s = words.duration() / SECOND
        return _for_each(daemons, lambda scene, daemon: scene.set_timeout(daemon, timeout_s))
    if what == "packets":
        size = words.number("a number of bytes")
        words.one_of(("bytes",))
        return _for_each(daemons, lambda scene, daemon: scene.set_config(daemon, packet_limit=size))
    return _for_each(daemons, lambda scene, daemon: scene.set_config(daemon))


def _disk(words: Words) -> Act:
    daemons = words.daemons()
    how = words.one_of(tuple(_DISKS))
    ailment = _DISKS[how]
    write_us = words.duration() if ailment is Ailment.SLOW else 0

    def act(scene: Scene, daemon: int) -> None:
        disk = scene.cluster.daemons[daemon].disk
        if ailment is None:
            disk.recover()
        else:
            disk.ail(ailment, write_us)

    return _for_each(daemons, act)


# ---- the end ----


def _core(words: Words) -> Act:
    daemons = words.daemons()
    return lambda scene: setattr(scene, "core", daemons)


def _unhealed(words: Words) -> Act:
    return lambda scene: setattr(scene, "healed", False)


VERBS: Final[dict[str, Parser]] = {
    "run": _run,
    "await": _await,
    "members": _members,
    "connect": _connect,
    "disconnect": partial(_users, Client.disconnect),
    "kill": partial(_users, Client.crash),
    "deafen": partial(_users, lambda client: client.set_reading(False)),
    "undeafen": partial(_users, lambda client: client.set_reading(True)),
    "join": _join,
    "leave": _leave,
    "send": _send,
    "load": _load,
    "unload": lambda words: Scene.end_loads,
    "cut": partial(_paths, Scene.cut),
    "mend": partial(_paths, Scene.mend),
    "split": _split,
    "heal": lambda words: Scene.mend_all,
    **{effect.value: partial(_rule, effect) for effect in Effect},
    "release": _release,
    "crash": _crash,
    "start": _start,
    "stop": partial(_each, lambda scene, daemon: scene.process(daemon).leave()),
    "clone": partial(_each, lambda scene, daemon: scene.host(daemon).start_clone()),
    "unclone": partial(_each, lambda scene, daemon: scene.host(daemon).kill_clone()),
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
    """What a command does.

    Raises:
        ScenarioError: it is written wrongly.
    """
    verb = words.take("a command")
    parser = VERBS.get(verb)
    if parser is None:
        words.fail(f"a command (daemons, show, {', '.join(VERBS)})", verb)
    act = parser(words)
    words.end()
    return act
