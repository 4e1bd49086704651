"""The state machine of the tests: numbers by name."""

import json

from groupcomm.events import MemberId


class Ledger:
    """A state machine of named numbers; commands are JSON."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def apply(self, command: bytes, sender: MemberId) -> object:
        name, change = json.loads(command)
        self.numbers[name] = self.numbers.get(name, 0) + change
        return self.numbers[name]

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        self.numbers["members"] = len(members)

    def snapshot(self) -> bytes:
        return json.dumps(self.numbers).encode()

    def restore(self, state: bytes) -> None:
        self.numbers = json.loads(state)
