"""A filter of one's own: messages are signed with a secret, and unsigned messages are marked.

python examples/filters/signed.py --secret apples hello
"""

import argparse
import hmac

import msgspec
import trio

import groupcomm_client as gc
from groupcomm.events import GroupView, Message
from groupcomm_client import ConnectOptions
from groupcomm_client.filters import (
    CannotUndo,
    Factory,
    Filter,
    Outgoing,
    Path,
    ReceiveFilter,
    SendFilter,
    Unfiltered,
)

TAG_BYTES = 32
QUIET_S = 1.0


class Sign(SendFilter):
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def process(self, message: Outgoing, path: Path) -> None:
        tag = hmac.digest(self._secret, message.data, "sha256")
        path.send_on(msgspec.structs.replace(message, data=tag + message.data))


class Verify(ReceiveFilter):
    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def process(self, message: Message, path: Path) -> None:
        tag, data = message.data[:TAG_BYTES], message.data[TAG_BYTES:]
        if not hmac.compare_digest(tag, hmac.digest(self._secret, data, "sha256")):
            raise CannotUndo("it was signed with another secret")
        path.receive_on(msgspec.structs.replace(message, data=data))


def signed(secret: str) -> Factory:
    key = secret.encode()
    return lambda: Filter("signed", Sign(key), Verify(key), on_wire=True)


async def run(options: argparse.Namespace) -> None:
    filters = [signed(options.secret)]
    async with (
        gc.connect(
            options.address, user=options.user, options=ConnectOptions(filters=filters)
        ) as connection,
        connection.group("signed"),
    ):
        for text in options.texts:
            await connection.multicast("signed", text.encode())
        while True:
            with trio.move_on_after(options.quiet_s):
                match await connection.receive():
                    case Message(sender=sender, data=data):
                        print(f"{sender.name}: {data.decode()}", flush=True)
                    case Unfiltered(message=message, why=why):
                        print(f"{message.sender.name}: not shown: {why}", flush=True)
                    case GroupView(members=members):
                        print(f"{len(members)} there", flush=True)
                    case _:
                        pass
                continue
            return


def main() -> None:
    parser = argparse.ArgumentParser(description="Sends signed lines, and shows what comes.")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="a message")
    parser.add_argument("--secret", required=True, help="what all of them share")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--user", help="name of this program; else a random one")
    parser.add_argument(
        "--quiet-s", type=float, default=QUIET_S, help="end after this time without messages (1.0)"
    )
    gc.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
