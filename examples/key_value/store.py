"""A key-value store, the same at every replica.

    python examples/key_value/store.py --replicas 3

Start it at several daemons, then type: put KEY VALUE, get KEY, delete KEY, list, hash.
"""

import argparse
import hashlib
from collections.abc import Sequence

import msgspec
import trio

import groupcomm_client as gc
from groupcomm.errors import GroupCommError
from groupcomm.events import MemberId
from groupcomm_client.coordination import OutcomeUnknown, Replicated, replicate

HELP = "put KEY VALUE, get KEY, delete KEY, list, or hash"


class Store:
    """The state machine: a dict, and commands that are lists of strings."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._decoder = msgspec.msgpack.Decoder(list[str])

    @staticmethod
    def put(key: str, value: str) -> bytes:
        """Return the command that sets the value of a key."""
        return msgspec.msgpack.encode(["put", key, value])

    @staticmethod
    def delete(key: str) -> bytes:
        """Return the command that removes a key."""
        return msgspec.msgpack.encode(["delete", key])

    def apply(self, command: bytes, sender: MemberId) -> object:
        """Apply a command; return the value that the key had before, or None."""
        match self._decoder.decode(command):
            case ["put", key, value]:
                before, self.values[key] = self.values.get(key), value
                return before
            case ["delete", key]:
                return self.values.pop(key, None)
            case _:
                return None

    def members_changed(self, members: tuple[MemberId, ...]) -> None:
        """Do nothing: values belong to no member."""

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.values)

    def restore(self, state: bytes) -> None:
        self.values = msgspec.msgpack.decode(state, type=dict[str, str])

    def digest(self) -> str:
        """Return a hash of all keys and values."""
        found = hashlib.sha256()
        for pair in sorted(self.values.items()):
            found.update(msgspec.msgpack.encode(pair))
        return found.hexdigest()


async def answer(store: Store, replica: Replicated, words: Sequence[str]) -> str:
    """Execute a line; return the text to print."""
    match words:
        case ["put", key, *values] if values:
            before = await replica.submit(Store.put(key, " ".join(values)))
            return "new" if before is None else f"was {before}"
        case ["delete", key]:
            before = await replica.submit(Store.delete(key))
            return "there is no such key" if before is None else f"was {before}"
        case ["get", key]:
            return store.values.get(key, "there is no such key")
        case ["list"]:
            return "\n".join(f"{key} = {value}" for key, value in sorted(store.values.items()))
        case ["hash"]:
            return store.digest()
        case _:
            return HELP


async def run(options: argparse.Namespace) -> None:
    store = Store()
    async with (
        gc.connect(options.address) as connection,
        replicate(connection, options.group, store, replicas=options.replicas) as replica,
    ):
        with trio.move_on_after(options.patience_s):
            await replica.until_current()
        if not replica.is_current:
            raise GroupCommError(
                f"fewer than {options.replicas // 2 + 1} of {options.replicas} replicas have the"
                f" state, or not all are there for the first time, after {options.patience_s:g} s"
            )
        print(f"{len(store.values)} keys; {HELP}", flush=True)
        async for line in gc.input_lines():
            if words := line.split():
                try:
                    print(await answer(store, replica, words), flush=True)
                except OutcomeUnknown as error:
                    print(f"unknown: {error}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="A replica of a key-value store.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--group", default="store", help="of the replicas (store)")
    parser.add_argument("--replicas", type=int, default=1, help="how many there are in all (1)")
    parser.add_argument("--patience-s", type=float, default=60.0, help="to wait for others (60)")
    gc.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
