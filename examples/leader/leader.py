"""One of all candidates works; when it goes, the next one does.

python examples/leader/leader.py --user ann
"""

import argparse

import trio

import groupcomm_client as gc
from groupcomm_client.coordination import Election, LeadershipLost, stand

TICK_S = 0.2


async def work(election: Election, me: str, ticks: int) -> None:
    """Do what only the leader may do; it is cancelled when this program no longer leads."""
    while True:
        try:
            async with election.leading():
                for number in range(ticks):
                    print(f"{me} leads, tick {number + 1}", flush=True)
                    await trio.sleep(TICK_S)
                return
        except LeadershipLost:
            print(f"{me} leads no longer", flush=True)


async def run(options: argparse.Namespace) -> None:
    async with (
        gc.connect(options.address, user=options.user) as connection,
        stand(connection, "leaders", candidates=options.candidates) as election,
    ):
        await work(election, connection.name, options.ticks)


def main() -> None:
    parser = argparse.ArgumentParser(description="One candidate of several works.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--user", help="name of this program; else a random one")
    parser.add_argument("--ticks", type=int, default=5, help="to work as the leader (5)")
    parser.add_argument(
        "--candidates", type=int, help="how many there are: one leads if more than half are there"
    )
    gc.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
