"""An order book that goes on where it was: each order counts once, whatever happened meanwhile.

    groupcomm history serve orders --store orders-log     # an archive, or several
    python examples/order_book/book.py keep book.db
    python examples/order_book/book.py send 'buy 5 at 101' 'sell 3 at 100'
    python examples/order_book/book.py show book.db

The book is a table of SQLite. An order, what it changes and its place in the agreed order are
written in one transaction. So a book that is killed at any moment, or was away for a day, goes on
behind the last order that it has: none is missing, and none counts twice.
"""

import argparse
import re
import sqlite3
from pathlib import Path

import groupcomm_client as gc
from groupcomm.errors import GroupCommError
from groupcomm.events import Message
from groupcomm_client.history import (
    EARLIEST,
    CaughtUp,
    Gap,
    Position,
    format_position,
    parse_position,
)

GROUP = "orders"

TABLES = """
CREATE TABLE IF NOT EXISTS resting (
    number INTEGER PRIMARY KEY, side TEXT, price INTEGER, quantity INTEGER
);
CREATE TABLE IF NOT EXISTS trades (price INTEGER, quantity INTEGER, buyer INTEGER, seller INTEGER);
CREATE TABLE IF NOT EXISTS place (only INTEGER PRIMARY KEY CHECK (only = 1), position TEXT);
"""

ORDER = re.compile(r"(buy|sell) (\d{1,9}) at (\d{1,9})")


class Book:
    """A book of orders in a file: orders that wait for others, and trades.

    Args:
        path: the file; it is made if it is missing.
    """

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.executescript(TABLES)

    @property
    def position(self) -> Position | None:
        """Return the place of the last order; None if the book is new."""
        row = self._file.execute("SELECT position FROM place").fetchone()
        return None if row is None else parse_position(row[0])

    def accept(self, text: str, position: Position) -> str:
        """Match an order with those that wait, and write all that changes at once.

        Returns:
            What has happened, in words.
        """
        with self._file:
            self._file.execute("BEGIN")
            told = self._match(text)
            place = format_position(position)
            self._file.execute("INSERT OR REPLACE INTO place VALUES (1, ?)", (place,))
        return told

    def _match(self, text: str) -> str:
        found = ORDER.fullmatch(text)
        if found is None:
            return f"{text!r} is no order"  # it has a place, too: it is passed over for good
        side, quantity, price = found[1], int(found[2]), int(found[3])
        mine = self._file.execute(
            "INSERT INTO resting (side, price, quantity) VALUES (?, ?, ?)", (side, price, quantity)
        ).lastrowid
        traded = 0
        for number, at, offered in self._others(side, price):
            part = min(offered, quantity - traded)
            if part:
                buyer, seller = (mine, number) if side == "buy" else (number, mine)
                trade = (at, part, buyer, seller)
                self._file.execute("INSERT INTO trades VALUES (?, ?, ?, ?)", trade)
                self._take(number, part)
                traded += part
        self._take(mine, traded)
        return f"{text}: {traded} traded, {quantity - traded} waiting"

    def _others(self, side: str, price: int) -> list[tuple[int, int, int]]:
        """Return the waiting orders that this one meets, the best first, then the oldest."""
        if side == "buy":
            wanted = "side = 'sell' AND price <= ? ORDER BY price, number"
        else:
            wanted = "side = 'buy' AND price >= ? ORDER BY price DESC, number"
        query = f"SELECT number, price, quantity FROM resting WHERE {wanted}"
        return self._file.execute(query, (price,)).fetchall()

    def _take(self, number: int | None, quantity: int) -> None:
        self._file.execute(
            "UPDATE resting SET quantity = quantity - ? WHERE number = ?", (quantity, number)
        )
        self._file.execute("DELETE FROM resting WHERE quantity = 0")

    def lines(self) -> list[str]:
        """Return the book as text: what waits, then what was traded."""
        resting = self._file.execute(
            "SELECT side, SUM(quantity), price FROM resting GROUP BY side, price"
            " ORDER BY side, price DESC"
        )
        trades = self._file.execute("SELECT quantity, price FROM trades ORDER BY rowid")
        return [
            *(f"{side} {quantity} at {price}" for side, quantity, price in resting),
            *(f"traded {quantity} at {price}" for quantity, price in trades),
        ]


async def keep(options: argparse.Namespace) -> None:
    """Keep a book until ^C."""
    book = Book(options.book)
    start = EARLIEST if book.position is None else book.position
    async with (
        gc.connect(options.address, reconnect=True) as connection,
        connection.subscribe(GROUP, start=start, stable=True) as subscription,
    ):
        async for event in subscription:
            if isinstance(event, Message) and event.position is not None:
                print(book.accept(event.data.decode(errors="replace"), event.position), flush=True)
            elif isinstance(event, Gap):
                raise GroupCommError(f"{event}; begin another book")
            elif isinstance(event, CaughtUp):
                print("up to date", flush=True)


async def send(options: argparse.Namespace) -> None:
    """Send orders; any program can do that."""
    async with gc.connect(options.address) as connection:
        await connection.multicast_many(GROUP, [order.encode() for order in options.orders])


async def show(options: argparse.Namespace) -> None:
    """Print a book."""
    print(*Book(options.book).lines(), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="An order book that goes on where it was.")
    parser.add_argument("--address", help="of a daemon; else $GROUPCOMM_ADDRESS, else this user's")
    verbs = parser.add_subparsers(required=True)
    keeper = verbs.add_parser("keep", help="keep a book until ^C")
    keeper.set_defaults(run=keep)
    shower = verbs.add_parser("show", help="print a book")
    shower.set_defaults(run=show)
    for verb in (keeper, shower):
        verb.add_argument("book", type=Path, help="the file of the book")
    sender = verbs.add_parser("send", help="send orders")
    sender.add_argument("orders", nargs="+", metavar="ORDER", help="such as 'buy 5 at 101'")
    sender.set_defaults(run=send)
    options = parser.parse_args()
    gc.run(options.run, options)


if __name__ == "__main__":
    main()
