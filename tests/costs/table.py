"""`make costs`: the cost of a message for three and five daemons, counted in virtual time.

    python -m tests.costs.table [--json] [--record]

Steps, steps begun by a timer alone, datagrams, bytes and Python calls for each message, over all
daemons; and the calls, functions and modules that one lone message touches in daemons and programs.
The figures are the same on each machine. Exit status 0.
"""

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from groupcomm.level import LEVELS, ServiceLevel
from tests.costs.lone import touched_by
from tests.costs.measure import Cost, Load, measure

RECORDED: Final = Path(__file__).with_name("recorded.json")
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
DAEMONS, SENDERS = (3, 5), (1, 3)
RATES: Final = (20, 200, 1000, 2000, 5000)

KEPT: Final = tuple(
    Load(3, senders, level, rate)
    for senders, level, rate in (
        (1, ServiceLevel.FIFO, 200),
        (1, ServiceLevel.AGREED, 20),
        (1, ServiceLevel.AGREED, 200),
        (1, ServiceLevel.AGREED, 2000),
        (1, ServiceLevel.SAFE, 200),
        (3, ServiceLevel.AGREED, 200),
        (3, ServiceLevel.AGREED, 2000),
    )
)
"""Loads whose costs are recorded, for test_costs.py."""


def name_of(load: Load) -> str:
    """Return the name of a load in the record."""
    senders = f"{load.senders} sender{'s' * (load.senders > 1)}"
    return f"{load.daemons} daemons, {senders}, {load.level.name}, {load.rate}/s"


def read_recorded() -> dict[str, Cost]:
    """Return the record, by the names of loads."""
    return {name: Cost(**cost) for name, cost in _recorded()["costs"].items()}


def python_recorded() -> str:
    """Return the release of Python of the record: from 3.12 on comprehensions are no
    calls."""
    return str(_recorded()["python"])


def _recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def record() -> None:
    """Record the present costs of the loads of KEPT."""
    found = {
        name_of(load): {
            name: round(value, 2) for name, value in attrs.asdict(measure(load)).items()
        }
        for load in KEPT
    }
    text = json.dumps({"python": PYTHON, "costs": found}, indent=2)
    RECORDED.write_text(text + "\n")


def loads() -> Iterator[Load]:
    """Yield all measured loads."""
    for daemons, senders, level, rate in itertools.product(DAEMONS, SENDERS, LEVELS, RATES):
        yield Load(daemons, senders, level, rate)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return the exit status."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one line for each load")
    parser.add_argument("--record", action="store_true", help="write down what the tests compare")
    options = parser.parse_args(arguments)
    if options.record:
        record()
        return 0
    columns = list(attrs.fields_dict(Cost))
    if not options.json:
        print(f"{'for each message':44}" + "".join(f"{column:>11}" for column in columns))
    for load in loads():
        cost = attrs.asdict(measure(load))
        if options.json:
            named = {**attrs.asdict(load), "level": load.level.name}
            print(json.dumps({**named, **cost}), flush=True)
        else:
            figures = "".join(f"{cost[column]:11.2f}" for column in columns)
            print(f"{name_of(load):44}{figures}", flush=True)
    for level in LEVELS:
        touched = attrs.asdict(touched_by(level))
        if options.json:
            print(json.dumps({"daemons": 3, "level": level.name, **touched}), flush=True)
        else:
            figures = ", ".join(f"{value} {name}" for name, value in touched.items())
            print(f"{f'3 daemons, one lone message, {level.name}':48}{figures}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
