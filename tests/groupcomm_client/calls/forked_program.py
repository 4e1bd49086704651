"""A program that forks in the middle of each scene; its children make all calls. Tests run it.

    python -m tests.groupcomm_client.calls.forked_program FORM ADDRESS

It prints by name the class of the error of each call, or that the call waits or returns.
"""

import faulthandler
import json
import os
import sys
from typing import Any, Final

from tests.groupcomm_client.calls.forms import FORMS, done
from tests.groupcomm_client.calls.stage import Stage, stage
from tests.groupcomm_client.calls.table import Row, Scene
from tests.groupcomm_client.calls.test_calls import SCENES

CHILD_S: Final = 20.0
STEPS: Final = 50
"""No call may suspend more often: nothing would ever resume it in the child."""


def error_of(s: Stage, row: Row) -> str:
    """Make a call in the child; return the class of its error."""

    async def call() -> None:
        await done((row.forked_call or row.call)(s))

    coroutine: Any = call()
    try:
        for _ in range(STEPS):
            coroutine.send(None)
    except StopIteration:
        return "it returns"
    except Exception as error:
        return type(error).__name__
    return "it waits"


def in_a_child(s: Stage, scene: Scene) -> str:
    """Have a child make all calls; return what it tells."""
    told, end = os.pipe()
    pid = os.fork()
    if not pid:
        faulthandler.dump_traceback_later(CHILD_S, exit=True)
        rows = {name: row for name, row in scene.rows.items() if not isinstance(row.forked, str)}
        found = {name: error_of(s, row) for name, row in rows.items()}
        os.write(end, json.dumps(found).encode())
        os._exit(0)
    os.close(end)
    os.waitpid(pid, 0)
    with os.fdopen(told) as text:
        return text.read()


def main() -> None:
    """Play the scenes until their children have ended, and go on."""
    wanted, address = sys.argv[1:]
    form = next(each for each in FORMS if each.name == wanted)
    found: dict[str, str] = {}

    async def scenario() -> None:
        async with stage(form, address) as s:
            for scene in SCENES.values():
                if form.name in scene.forms:
                    async with scene.build(s):
                        found.update(json.loads(in_a_child(s, scene)))
                        await s.goes_on()

    form.run(scenario, 100.0)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
