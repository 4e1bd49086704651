"""What ``show`` tells of a scene, in the same words for daemons of which the same is true."""

from collections import Counter
from collections.abc import Callable, Iterable
from string import ascii_lowercase
from typing import Final

from groupcomm.membership.states import GatherReason, MembershipState
from groupcomm.sim.host import Host
from groupcomm.sim.scenario.scene import Scene
from groupcomm.sim.scenario.story import daemon_name, together


def _alike(facts: Iterable[tuple[str, tuple[str, ...]]]) -> list[str]:
    alike: dict[tuple[str, ...], list[str]] = {}
    for name, what in facts:
        if what:
            alike.setdefault(what, []).append(name)
    return [line for what, names in alike.items() for line in together(names, what)]


def _of_daemons(tell: Callable[[Scene, Host], Iterable[str]], scene: Scene) -> list[str]:
    return _alike(
        (ascii_lowercase[host.index], tuple(tell(scene, host)))
        for host in scene.cluster.daemons
        if host.process is not None
    )


def _view(scene: Scene, host: Host) -> list[str]:
    view = host.core.view
    if view is None:
        return ["no view"]
    names = [daemon_name(scene.cluster.identities[daemon]) for daemon in view.daemons]
    rings = " | ".join(" ".join(names[member] for member in ring) for ring in view.rings)
    return [
        f"view {rings}"
        if host.core.state is MembershipState.OPERATIONAL
        else f"was in view {rings}"
    ]


def _groups(scene: Scene, host: Host) -> list[str]:
    operation = host.core.view_state
    if operation is None or not operation.delivery.complete:
        return ["no groups yet"]
    table = operation.delivery.groups.table
    return [
        f"{group} = {' '.join(scene.label(str(id)) for id in table.member_ids(group))}"
        for group in sorted(table.groups)
    ] or ["no groups"]


def _kept(scene: Scene, host: Host) -> list[str]:
    packets = sum(len(stream.packets) for stream in host.core.streams)
    output = sum(session.output_bytes for session in host.core.sessions.by_connection.values())
    kept = ["packets"] * bool(packets) + ["output of programs"] * bool(output)
    return [f"keeps {' and '.join(kept) or 'nothing'}"]


def _reasons(scene: Scene, host: Host) -> list[str]:
    assert host.process is not None
    reasons = host.core.membership.reasons
    new = reasons - scene.reasons_shown.get(host.process.name, Counter[GatherReason]())
    scene.reasons_shown[host.process.name] = Counter(reasons)
    return [f"gathered: {', '.join(sorted(reason.name for reason in new))}"] if new else []


def _counters(scene: Scene, host: Host) -> list[str]:
    counters = host.core.counters
    names = [
        f"rejected as {reason}" for reason, count in sorted(counters.rejected.items()) if count
    ]
    names += [name for name in ("foreign", "stale", "violations") if getattr(counters, name)]
    return [", ".join(names) or "dropped nothing"]


def _files(scene: Scene, host: Host) -> list[str]:
    core, now = host.core, host.clock.monotonic(scene.cluster.loop.now)
    letters = {each.name: ascii_lowercase[each.index] for each in scene.cluster.daemons}
    return [
        f"file differs from that of {' '.join(letters[name] for name in other.daemons)} in"
        f" {', '.join(found.key for found in other.differences)} ({other.verdict.name.lower()})"
        for other in core.membership.comparison.others(core.view, now)
    ] or ["knows of no other file"]


def _rules(scene: Scene) -> list[str]:
    return _alike(
        (f"{ascii_lowercase[pair[0]]}>{ascii_lowercase[pair[1]]}", tuple(told))
        for pair, path in sorted(scene.paths.items())
        if (told := [rule.report() for rule in path.rules])
    )


def _jumps(scene: Scene, host: Host) -> list[str]:
    jumps = host.core.physical.jumps
    return [f"saw its wall clock jump, {jumps} in all"] if jumps else []


SHOWS: Final[dict[str, Callable[[Scene], list[str]]]] = {
    "views": lambda scene: _of_daemons(_view, scene),
    "groups": lambda scene: _of_daemons(_groups, scene),
    "kept": lambda scene: _of_daemons(_kept, scene),
    "reasons": lambda scene: _of_daemons(_reasons, scene),
    "counters": lambda scene: _of_daemons(_counters, scene),
    "files": lambda scene: _of_daemons(_files, scene),
    "jumps": lambda scene: _of_daemons(_jumps, scene),
    "rules": _rules,
}
"""By what is to be shown."""
