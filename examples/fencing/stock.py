"""Sell what is in stock, one program at a time; the database refuses whoever was cut off meanwhile.

    python examples/fencing/stock.py --database stock.db --user ann

Start it several times. ``--stop`` has it stand still in the middle, as a suspended host does: go on
with another one, then with this one, whose sale the database refuses.
"""

import argparse
import os
import signal
import sqlite3
from pathlib import Path

from groupcomm_client import blocking
from groupcomm_client.coordination import MutexLost
from groupcomm_client.coordination.blocking import join_mutex

MADE = "CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, count INTEGER, token TEXT)"
SELL = "UPDATE stock SET count = count - 1, token = :token WHERE item = :item AND token <= :token"


def sell(database: sqlite3.Connection, item: str, token: int) -> bool:
    """Sell one unless a later holder has been there: the check and the write are one statement."""
    done = database.execute(SELL, {"item": item, "token": f"{token:032x}"})
    return done.rowcount == 1


def run(options: argparse.Namespace) -> None:
    database = sqlite3.connect(options.database, timeout=10, isolation_level=None)
    database.execute(MADE)
    database.execute("INSERT OR IGNORE INTO stock VALUES ('tea', 10, '')")
    with (
        blocking.connect(options.address, user=options.user, reconnect=True) as connection,
        join_mutex(connection, "stock") as mutex,
    ):
        try:
            with mutex:
                print(f"{options.user} holds the mutex", flush=True)
                if options.stop:
                    os.kill(os.getpid(), signal.SIGSTOP)
                sold = sell(database, "tea", mutex.token)
                print(f"{options.user}: {'sold' if sold else 'refused'}", flush=True)
        except MutexLost as error:
            print(f"{options.user}: {error}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Sell tea, one program at a time.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    parser.add_argument("--user", default="ann", help="name of this program (ann)")
    parser.add_argument("--database", type=Path, default=Path("stock.db"), help="(stock.db)")
    parser.add_argument("--stop", action="store_true", help="stand still in the middle")
    blocking.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
