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
from groupcomm_client.coordination import OutcomeUnknown, ReplicatedDict, open_dict

HELP = "put KEY VALUE, get KEY, delete KEY, list, or hash"
GONE = "there is no such key"


async def answer(store: ReplicatedDict[str], words: Sequence[str]) -> str:
    """Execute a line; return the text to print."""
    match words:
        case ["put", key, *values] if values:
            return f"version {await store.put(key, ' '.join(values))}"
        case ["delete", key]:
            return GONE if store.get(key) is None else f"version {await store.delete(key)}"
        case ["get", key]:
            return store.get(key) or GONE
        case ["list"]:
            return "\n".join(f"{key} = {value}" for key, value in sorted(store.copy().items()))
        case ["hash"]:
            pairs = msgspec.msgpack.encode(sorted(store.copy().items()))
            return hashlib.sha256(pairs).hexdigest()
        case _:
            return HELP


async def run(options: argparse.Namespace) -> None:
    async with (
        gc.connect(options.address) as connection,
        open_dict(connection, options.group, str, replicas=options.replicas) as store,
    ):
        with trio.move_on_after(options.patience_s):
            await store.until_current()
        if not store.is_current:
            raise GroupCommError(
                f"fewer than {options.replicas // 2 + 1} of {options.replicas} replicas have the"
                f" state, or not all are there for the first time, after {options.patience_s:g} s"
            )
        print(f"{len(store.copy())} keys; {HELP}", flush=True)
        async for line in gc.input_lines():
            if words := line.split():
                try:
                    print(await answer(store, words), flush=True)
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
