import subprocess
import sys
import time
from pathlib import Path

from examples.order_book.book import Book
from groupcomm_client import connect
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_client.history.archives import ArchiveProcess

BOOK = Path(__file__).with_name("book.py")
PATIENCE_S = 60.0

FIRST = ("sell 3 at 100", "sell 4 at 102", "buy 5 at 101", "nonsense")
SECOND = ("sell 1 at 90", "buy 9 at 102")
SHOWN = ["buy 5 at 102", "buy 1 at 101", "traded 3 at 100", "traded 1 at 101", "traded 4 at 102"]


def read_until(output: Path, line: str, before: int) -> None:
    """Wait until a book has printed a line, behind so many lines of books before it."""
    limit = time.monotonic() + PATIENCE_S
    while line not in output.read_text().splitlines()[before:]:
        assert time.monotonic() < limit, output.read_text()
        time.sleep(0.02)


async def test_a_book_that_was_killed_goes_on_behind_its_last_order(tmp_path: Path) -> None:
    async with LocalCluster("a") as cluster:
        await cluster.settle("a")
        here, told = cluster["a"].unix, tmp_path / "told"
        with ArchiveProcess(str(here), tmp_path / "log", ["orders"]) as archive:
            archive.until_live()
            for orders, last in ((FIRST, "'nonsense' is no order"), (SECOND, "up to date")):
                async with connect(str(here)) as connection:
                    await connection.multicast_many("orders", [each.encode() for each in orders])
                before = len(told.read_text().splitlines()) if told.exists() else 0
                with told.open("ab") as output:
                    book = subprocess.Popen(
                        [sys.executable, BOOK, "--address", here, "keep", tmp_path / "book.db"],
                        stdout=output,
                    )
                try:
                    read_until(told, last, before)
                finally:
                    book.kill()
                    book.wait()
            lines = told.read_text().splitlines()
            assert [line for line in lines if line.startswith("sell")] == [
                "sell 3 at 100: 0 traded, 3 waiting",
                "sell 4 at 102: 0 traded, 4 waiting",
                "sell 1 at 90: 1 traded, 0 waiting",
            ]
            assert Book(tmp_path / "book.db").lines() == SHOWN
