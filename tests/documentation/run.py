"""Run the blocks of pages: ``python -m tests.documentation.run docs/client.md``.

Each page has a fresh folder, and namespaces of its own where the system allows that.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.documentation.blocks import Act, Block, PageError, read_blocks
from tests.documentation.namespaces import bring_loopback_up, own_namespaces, turn
from tests.documentation.output import described_length, is_as_expected
from tests.documentation.shell import Program, Terminals, wait_until

ROOT: Final = Path(__file__).parents[2]

WAIT_S: Final = 60.0
"""A program in the background prints what the page says within this time."""

BLOCK_S: Final = 150.0
"""A block of most pages ends within this time, which is less than a test may take."""


class PageRun:
    """One run of the blocks of a page.

    Args:
        terminals: where they run.
        block_s: the seconds that one may take.

    Attributes:
        ran: the number of blocks that were run.
        times_s: the seconds that each block took, by its place.
        printed: the texts that programs have printed, by the places of their blocks.
    """

    def __init__(self, terminals: Terminals, block_s: float = BLOCK_S) -> None:
        self._terminals = terminals
        self._block_s = block_s
        self._beside: dict[str, Program] = {}
        self._last: Program | None = None
        self.ran = 0
        self.times_s: dict[str, float] = {}
        self.printed: dict[str, str] = {}

    def run(self, blocks: Sequence[Block]) -> None:
        """Run the blocks of a page, then end what they have left running.

        Raises:
            PageError: a block did not do what the page says.
        """
        try:
            for block in blocks:
                for name in block.stops:
                    self._stop(block, name)
                began = time.monotonic()
                self._run_block(block)
                self.times_s[block.place] = time.monotonic() - began
            for name in reversed(list(self._beside)):  # daemons outlive their programs
                self._end(name)
        finally:
            for program in self._beside.values():
                program.stop()
                self.printed[program.place] = program.printed

    def _run_block(self, block: Block) -> None:
        if block.until and not wait_until(
            lambda: self._terminals.succeeds(block.until, WAIT_S), WAIT_S
        ):
            raise PageError(f"{block.place}: in {WAIT_S:g} s this did not succeed: {block.until}")
        match block.act:
            case Act.FILE:
                self._terminals.save(block.name, block.text)
            case Act.RUN:
                self._run_to_its_end(block)
            case Act.BACKGROUND:
                if block.name in self._beside:
                    raise PageError(f"{block.place}: {_called(block.name)} runs already")
                self._last = self._beside[block.name] = self._terminals.start(
                    block.place, block.language, block.text, block.status, beside=True
                )
                self.ran += 1
            case Act.INPUT:
                self._program(block).type(block.text)
            case Act.OUTPUT:
                self._compare(block)
            case Act.NONE | Act.NOT_RUN:
                pass

    def _run_to_its_end(self, block: Block) -> None:
        program = self._terminals.start(block.place, block.language, block.text, block.status)
        ended = program.wait(self._block_s)
        program.stop()
        self.printed[block.place] = program.printed
        if ended is None:
            raise PageError(f"{block.place}: not over in {self._block_s:g} s\n{program.printed}")
        _check_status(program, ended)
        self._last = program
        self.ran += 1

    def _compare(self, block: Block) -> None:
        program = self._program(block) if block.name else self._last
        if program is None:
            raise PageError(f"{block.place}: no block before this one has printed anything")
        if program not in self._beside.values():
            if not is_as_expected(block.text, program.printed[program.seen :]):
                raise PageError(f"{block.place}: {_differs(program)}")
            program.seen = len(program.printed)
            return

        def is_described() -> bool:
            return program.ended is not None or self._described(block, program) is not None

        wait_until(is_described, WAIT_S)
        length = self._described(block, program)
        if length is None:
            raise PageError(f"{block.place}: {_differs(program)}")
        program.seen += length

    @staticmethod
    def _described(block: Block, program: Program) -> int | None:
        return described_length(block.text, program.printed[program.seen :])

    def _program(self, block: Block) -> Program:
        if block.name not in self._beside:
            raise PageError(f"{block.place}: {_called(block.name)} does not run in the background")
        return self._beside[block.name]

    def _stop(self, block: Block, name: str) -> None:
        if name and name not in self._beside:
            raise PageError(f"{block.place}: {_called(name)} does not run in the background")
        for each in [name] if name else reversed(list(self._beside)):
            self._end(each)

    def _end(self, name: str) -> None:
        program = self._beside.pop(name)
        ended = program.stop()
        self.printed[program.place] = program.printed
        _check_status(program, ended)


def _check_status(program: Program, ended: int | None) -> None:
    """Complain about a program that has ended by itself in another way than it should."""
    expected = {None, 0, -9, 137} if program.status == 0 else {program.status}
    if ended not in expected:
        raise PageError(
            f"{program.place}: ended with status {ended}, not {program.status}\n{program.printed}"
        )


def _differs(program: Program) -> str:
    rest = program.printed[program.seen :]
    return f"the block of {program.place} did not print this, but:\n{rest or '(nothing)'}"


def _called(name: str) -> str:
    return f"the program {name!r}" if name else "a program without a name"


def run_here(
    page: Path, environment: Path, *, block_s: float = BLOCK_S, show: bool = False
) -> PageRun:
    """Run the blocks of a page in a fresh folder.

    Raises:
        PageError: the page breaks the convention, or does not say what its blocks do.
    """
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else str(page)
    blocks = read_blocks(name, page.read_text())
    with tempfile.TemporaryDirectory(prefix="page-") as folder:
        page_run = PageRun(Terminals(Path(folder), environment, ROOT), block_s)
        try:
            page_run.run(blocks)
        finally:
            if show:
                for place, text in page_run.printed.items():
                    print(f"--- {place}\n{text}")
        return page_run


def run_page(page: Path, environment: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the blocks of a page as another process, in namespaces of its own where that works."""
    command = [sys.executable, "-m", "tests.documentation.run", "--here", str(page)]
    command += ["--environment", str(environment), *options]
    before = own_namespaces()
    if before:
        return _captured([*before, *command, "--loopback"])
    with turn():
        return _captured(command)


def _captured(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main() -> int:
    """Run the pages that the command line names; return 1 if one failed."""
    parser = argparse.ArgumentParser(description="run the blocks of pages of the documentation")
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    parser.add_argument(
        "--environment", type=Path, default=Path(sys.prefix), help="the virtual environment"
    )
    parser.add_argument("--times", action="store_true", help="print the time of each block")
    parser.add_argument("--show", action="store_true", help="print what the blocks print")
    parser.add_argument(
        "--block-s", type=float, default=BLOCK_S, metavar="S", help="longest time of a block (150)"
    )
    parser.add_argument("--here", action="store_true", help="without namespaces")
    parser.add_argument("--loopback", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        if options.loopback:
            bring_loopback_up()
        os.umask(0o022)
        try:
            done_here = run_here(
                options.pages[0].resolve(),
                options.environment.absolute(),
                block_s=options.block_s,
                show=options.show,
            )
        except PageError as error:
            print(error)
            return 1
        if options.times:
            print(
                *(f"{place} {took_s:.1f} s" for place, took_s in done_here.times_s.items()),
                sep="\n",
            )
        print(f"{done_here.ran} blocks run")
        return 0
    failed = 0
    for page in options.pages:
        began = time.monotonic()
        passed_on = ["--block-s", str(options.block_s)]
        passed_on += [f"--{name}" for name in ("times", "show") if vars(options)[name]]
        done = run_page(page.resolve(), options.environment, *passed_on)
        print(f"{page}: {time.monotonic() - began:.1f} s, {done.stdout.strip()}", flush=True)
        failed |= done.returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
