"""The resource inside the cluster under each fault: each program uses it, and keeps one.

Checked, of each keeper: what it accepts is in the order of tokens, and within a token in the
order in which the holder sent it; a token is one member's. What a holder has sent in a block that
ended normally is with each keeper, unless a fault struck one of the two.
"""

import json
from itertools import pairwise
from typing import Any, Final

from groupcomm.events import MemberId
from groupcomm_client.coordination import Mutex, MutexLost, join_mutex, keep_resource, use
from tests.verification.campaigns.programs import Program
from tests.verification.campaigns.tenures_player import GROUP, WRITE_S, Player, tell

USES: Final = 6


async def use_and_keep(player: Player) -> None:
    def accept(holder: MemberId, data: bytes) -> None:
        tell(accepted=json.loads(data), by=str(holder))

    async with (
        player.connection() as keeping,
        player.connection() as holding,
        keep_resource(keeping, GROUP, accept) as resource,
        join_mutex(holding, GROUP) as mutex,
    ):
        while not player.stopping.is_set():
            try:
                async with mutex:
                    await _use(mutex)
                tell(out=mutex.token)
                await holding.loop.sleep(WRITE_S)  # others get their turn
            except MutexLost:
                tell(lost=True)
        await player.until_ending(holding, stopped=True, refused_uses=len(resource.refused))


async def _use(mutex: Mutex) -> None:
    token = mutex.token
    tell(entered=token)
    for number in range(USES):
        await use(mutex, json.dumps([token, number]).encode())
        await mutex.driver.loop.sleep(WRITE_S)
    tell(last=token)


def resource_of(
    programs: list[Program], victims: list[tuple[Program | None, int]]
) -> dict[str, Any]:
    """Return the results, and the violated expectations; `victims`: see `tenures_work`."""
    wrong: list[str] = []
    users: dict[int, str] = {}
    had: dict[Program, set[int]] = {}
    lines = [line for program in programs for line in program.lines]
    for keeper in programs:
        accepted = [line["accepted"] for line in keeper.lines if "accepted" in line]
        had[keeper] = {token for token, number in accepted if number == USES - 1}
        wrong += [f"a keeper accepted {b} after {a}" for a, b in pairwise(accepted) if b <= a]
    for line in lines:
        if "accepted" in line and users.setdefault(line["accepted"][0], line["by"]) != line["by"]:
            wrong.append(f"{line['accepted']} is of two holders")
    for holder in programs:
        for token, began, ended in _whole(holder):
            struck = [victim for victim, at in victims if at >= began][:1]
            struck += [victim for victim, at in victims if at >= ended][:1]
            if not struck or began <= victims[0][1]:
                continue  # others were still starting, or are stopping
            wrong += [
                f"a keeper has not accepted all of {token:x}"
                for keeper in programs
                if token not in had[keeper] and keeper not in struck and holder not in struck
            ]
    return {
        "accepted_uses": sum("accepted" in line for line in lines),
        "refused_uses": sum(line.get("refused_uses", 0) for line in lines),
        "violations": wrong,
    }


def _whole(holder: Program) -> list[tuple[int, int, int]]:
    """Return the tenures that ended normally: token, beginning and end."""
    entered, found = {"entered": 0, "at": 0}, []
    for line in holder.lines:
        if "entered" in line:
            entered = line
        elif "out" in line:
            found.append((line["out"], entered["at"], line["at"]))
    return found
