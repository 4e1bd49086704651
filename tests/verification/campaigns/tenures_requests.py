"""Requests under each fault: each program serves and asks in one group.

Checked: each answer is right and that of its question; each question has an outcome in time, be it
NoReply; and there is an answer wherever the server beside the caller was one all the time.
"""

from collections.abc import Iterator
from typing import Any, Final

from groupcomm_client.coordination import Caller, NoReply, Request, calling, serve
from tests.verification.campaigns.programs import Program
from tests.verification.campaigns.tenures_player import GROUP, WRITE_S, Player, membership, tell

ASKERS: Final = 3
TIMEOUT_S: Final = 8.0
LATEST_S: Final = TIMEOUT_S + 10.0
"""The longest that a call may last: its program may stand still, and the machine may be busy."""


async def ask_and_serve(player: Player) -> None:
    async with player.connection() as serving, player.connection() as asking:
        asked = [0]

        async def handle(request: Request) -> bytes:
            await serving.loop.sleep(WRITE_S)
            return answer_to(request.data)

        async with calling(asking) as caller, asking.loop.tasks() as tasks:
            tasks.start(serve, serving, GROUP, handle)
            while membership(serving) is None:
                await asking.loop.sleep(WRITE_S)
            for number in range(ASKERS):
                tasks.start(_ask_on, player, caller, serving, asked, number == 0)
            while asked[0] < ASKERS:
                await asking.loop.sleep(WRITE_S)
            await player.until_ending(asking, stopped=True)


def answer_to(question: bytes) -> bytes:
    return question[::-1]


async def _ask_on(
    player: Player, caller: Caller, serving: Any, asked: list[int], all_: bool
) -> None:
    while not player.stopping.is_set():
        await _ask(player.next_name(), caller, serving, all_)
        await serving.loop.sleep(WRITE_S)
    asked[0] += 1


async def _ask(question: str, caller: Caller, serving: Any, all_: bool) -> None:
    tell(asked=question)
    data, before, outcome = question.encode(), membership(serving), "cancelled"
    try:
        if all_:
            found = await caller.call_all(GROUP, data, timeout_s=TIMEOUT_S)
            answers, outcome = list(found.data.values()), "answered"
            tell(all=question, answers=len(answers), failed=len(found.failed))
        else:
            answers, outcome = [await caller.call(GROUP, data, timeout_s=TIMEOUT_S)], "answered"
        if any(answer != answer_to(data) for answer in answers):
            outcome = "wrong"
    except NoReply as error:
        outcome = "cut" if str(error).startswith("the session ended") else "no reply"
        if outcome == "no reply" and before is not None and before == membership(serving):
            outcome = "silence"
    finally:
        tell(of=question, **{outcome: True})


def requests_of(programs: list[Program], killed: set[str]) -> dict[str, Any]:
    """Return the results, and the violated expectations.

    Args:
        programs: the programs.
        killed: the lives that ended with a kill.
    """
    lines = [line for program in programs for line in program.lines]
    asked = {line["asked"]: line["at"] for line in lines if "asked" in line}
    ends = {line["of"]: line for line in lines if "of" in line}
    waited = {name: ends[name]["at"] - at for name, at in asked.items() if name in ends}
    open_ = [name for name in asked if name not in ends and name.split(".")[0] not in killed]
    counts = {
        word: sum(word in line for line in ends.values())
        for word in ("answered", "cut", "no reply", "silence", "wrong", "cancelled")
    }
    return {
        **counts,
        "answers_of_all": sum(line["answers"] for line in lines if "all" in line),
        "longest_s": round(max(waited.values()) / 1e9, 1),
        "violations": [
            *(f"{name} was never told an outcome" for name in open_),
            *(f"{name} waited for {ns / 1e9:.1f} s" for name, ns in _late(waited)),
            *(f"{name} got a wrong answer" for name in ends if "wrong" in ends[name]),
            *(
                f"{name} got none, and a server was there"
                for name in ends
                if "silence" in ends[name]
            ),
            *(f"a server failed: {line['all']}" for line in lines if line.get("failed")),
        ],
    }


def _late(waited: dict[str, int]) -> Iterator[tuple[str, int]]:
    return ((name, ns) for name, ns in waited.items() if ns > LATEST_S * 1e9)
