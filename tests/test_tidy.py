"""The rules of the code base that no linter knows: purity, layers, sizes."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.sources import ROOT, label, read

SOURCES = sorted(
    path
    for folder in ("groupcomm", "daemon", "clients", "tests", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
DAEMON = [
    path
    for path in SOURCES
    if path.is_relative_to(ROOT / "daemon")
    and path.name not in ("config_file.py", "daemon_config.py")  # these have none
]
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
HOST = ROOT / "groupcomm" / "host"
CORE = [
    path
    for path in SOURCES
    if path.is_relative_to(ROOT / "groupcomm") and not path.is_relative_to(HOST)
]

LESSONS = ROOT / "clients" / "groupcomm_lessons"
ALGORITHMS = [path for path in SOURCES if path.is_relative_to(LESSONS / "algorithms")]
SIMULATED = [path for path in SOURCES if path.parent in (LESSONS, *LESSONS.glob("algorithms/**"))]

CONTRACT = frozenset(
    """
    command deadline groups heard next_connection note_heartbeat pausing pop_output programs
    programs_status report status why_name_taken
    """.split()  # noqa: SIM905
)
"""The attributes of a core that the daemon may use, besides `drive`: see
groupcomm/engine/daemon.py."""

CONTRACT_MODULES = frozenset(("", "probe", "status"))
"""The modules of groupcomm.engine that the daemon may import."""

MAX_MODULE_LINES = 700  # a question for the review, not a shape to fill
MAX_FUNCTION_LINES = 60

PURE = frozenset(
    """
    __future__ abc array base64 binascii bisect collections contextlib copy dataclasses enum
    functools hashlib heapq hmac itertools math operator re string struct types typing unicodedata
    zlib attrs cryptography google_crc32c msgspec groupcomm
    """.split()  # noqa: SIM905 - words read better than thirty quoted lines
)
"""The modules that the core may import: none does I/O, reads a clock or draws random numbers."""

PURE_EXCEPTIONS = {
    "sim": frozenset({"random", "io", "marshal", "pickle"}),  # Random(seed) only; in memory only
}

IMPURE_CALLS = frozenset({"open", "print", "input", "eval", "exec", "hash"})
"""`hash` differs between runs for str and bytes, and so would a trace that depends on it."""

LAYERS = (
    {"errors", "visible"},
    {"level", "names", "durations", "member_lists", "metrics"},
    {"clocks"},
    {"config", "events"},
    {"wire"},
    {"security"},
    {"stream"},
    {"ring", "link"},
    {"order"},
    {"membership"},
    {"groups"},
    {"session", "joining"},
    {"engine"},
    {"trace"},
    {"sim"},
)
"""From bottom to top. A layer imports only lower ones, and those of one row not each other."""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

SHELLS_MAY_IMPORT = {
    "groupcommd": frozenset({"groupcomm", "groupcommd"}),
    "groupcomm_client": frozenset({"groupcomm", "groupcomm_client", "groupcomm_log"}),
    "groupcomm_archive": frozenset(
        {"groupcomm", "groupcomm_client", "groupcomm_log", "groupcomm_archive"}
    ),
    "groupcomm_lessons": frozenset({"groupcomm", "groupcomm_client", "groupcomm_lessons"}),
    "groupcomm_tools": frozenset(
        {
            *("groupcomm", "groupcommd", "groupcomm_archive", "groupcomm_lessons"),
            *("groupcomm_client", "groupcomm_tools", "groupcomm_log", "groupcomm_spark"),
        }
    ),
    "groupcomm_log": frozenset({"groupcomm.level", "groupcomm_log"}),
    "groupcomm_spark": frozenset(
        {"groupcomm", "groupcomm_client", "groupcomm_tools", "groupcomm_log", "groupcomm_spark"}
    ),
    "pyspark_groupcomm": frozenset({"groupcomm_spark"}),
}
"""Which packages of this project, or modules of them, each program may import."""


ROOMS = ("host", "programs", "files", "config", "network", "joining", "operators", "http")
"""The folders of the daemon from bottom to top. A module imports only its own room and lower ones;
those beside the rooms put everything together."""


def layer_of(path: Path) -> str:
    """The part of the core that a module below groupcomm/ belongs to; '' for the package."""
    first = path.relative_to(ROOT / "groupcomm").parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def forbidden_import(path: Path, name: str) -> str | None:
    """Why a module of the core may not import this name, or None."""
    inside = path.relative_to(ROOT / "groupcomm")
    extra = PURE_EXCEPTIONS.get(inside.parts[0], frozenset()) | PURE_EXCEPTIONS.get(
        inside.as_posix(), frozenset()
    )
    top, *rest = name.split(".")
    if top not in PURE and top not in extra:
        return f"imports {top}: the core is pure; if {top} is too, add it to PURE"
    own = layer_of(path)
    if top != "groupcomm" or own == "":
        return None
    other = rest[0]
    if other == "host":
        return f"imports {name}: files and sockets are for daemons and clients"
    if other not in RANK or own not in RANK:
        return f"imports {name}: give both {own!r} and {other!r} a row in LAYERS"
    if own != other and RANK[other] >= RANK[own]:
        return f"imports {name}: {own} stands below or beside {other}"
    return None


def beside_the_algorithms(path: Path) -> Iterator[str]:
    """Yield each import of a classic algorithm that its lesson has no need of."""
    for line, name in read(path).imports:
        top, *rest = name.split(".")
        alone = top in PURE - {"groupcomm"} or name.startswith("groupcomm_lessons.algorithms.")
        alone |= top == "groupcomm" and RANK.get(rest[0], 99) <= RANK["clocks"]
        if not alone and not name.startswith("groupcomm.trace.steps."):  # the words of all traces
            yield f"{label(path)}:{line}: imports {name}: algorithms stand alone"


def impure_imports(path: Path) -> Iterator[str]:
    """Yield each import of a simulated lesson that does I/O or reads a clock."""
    for line, name in read(path).imports:
        if name.split(".")[0] not in PURE | {"random", "groupcomm_lessons"}:
            yield f"{label(path)}:{line}: imports {name}"


def wrong_imports(path: Path) -> Iterator[str]:
    """Yield each import of a module of the core that its layer does not allow."""
    for line, name in read(path).imports:
        if (why := forbidden_import(path, name)) is not None:
            yield f"{label(path)}:{line}: {why}"


def module_of(path: Path) -> str:
    """The name under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] in ("daemon", "clients") else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_between(paths: Iterable[Path]) -> dict[str, set[str]]:
    """The modules among these files that each of them imports, wherever the import stands."""
    found: dict[str, set[str]] = {module_of(path): set() for path in paths}
    for path in paths:
        own = module_of(path)
        for _, name in read(path).imports:
            while name and name not in found:
                name = name.rpartition(".")[0]  # noqa: PLW2901 - a name in a module, or the module
            found[own] |= {name} - {"", own}
    return found


def circles_of(imports: Mapping[str, Collection[str]]) -> set[frozenset[str]]:
    """The largest sets of modules each of which imports all others, also by way of others.

    R. Tarjan, "Depth-First Search and Linear Graph Algorithms", SIAM J. Comput. 1(2), 1972.
    """
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    circles: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        path.append(module)
        for other in imports[module]:
            if other not in numbers:
                visit(other)
            if other in path:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == numbers[module]:
            at = path.index(module)
            if len(path) - at > 1:
                circles.add(frozenset(path[at:]))
            del path[at:]

    for module in imports:
        if module not in numbers:
            visit(module)
    return circles


def impure_calls(path: Path) -> Iterator[str]:
    """Yield each call of a built-in that does I/O or differs between runs."""
    for line, name in read(path).calls:
        if name in IMPURE_CALLS:
            yield f"{label(path)}:{line}: calls {name}()"


def foreign_imports(path: Path) -> Iterator[str]:
    """Yield each import of a package of this project that the file's program may not import."""
    if path.is_relative_to(ROOT / "tests"):  # its folders are named after what they test
        return
    ours = {"groupcomm", *SHELLS_MAY_IMPORT}
    for package in SHELLS_MAY_IMPORT.keys() & set(path.parts):
        for line, name in read(path).imports:
            known = any(f"{name}.".startswith(f"{each}.") for each in SHELLS_MAY_IMPORT[package])
            if name.split(".")[0] in ours and not known:
                yield f"{label(path)}:{line}: imports {name}"


def upward_imports(path: Path) -> Iterator[str]:
    """Yield each import of a room of the daemon that is above the file's own."""
    room = path.relative_to(ROOT / "daemon").parts[1]
    if room not in ROOMS:
        return
    below = ROOMS[: ROOMS.index(room) + 1]
    for line, name in read(path).imports:
        top, *rest = name.split(".")
        if top == "groupcommd" and rest[0] not in below:
            yield f"{label(path)}:{line}: imports {name}"


def beyond_the_contract(path: Path) -> Iterator[str]:
    """Yield each use of a core, in the daemon, that its contract does not name."""
    source = read(path)
    for line, name in source.core_uses:
        if name not in CONTRACT:
            yield f"{label(path)}:{line}: uses core.{name}"
    for line, name in source.imports:
        module = name.removeprefix("groupcomm.engine.").rpartition(".")[0]
        if name.startswith("groupcomm.engine.") and module not in CONTRACT_MODULES:
            yield f"{label(path)}:{line}: imports {name}"


def what_is_too_long(path: Path) -> Iterator[str]:
    """Yield the module and each function of it that have too many lines."""
    source = read(path)
    if source.lines > MAX_MODULE_LINES:
        yield f"{label(path)}: {source.lines} lines"
    for line, name, length in source.functions:
        if length > MAX_FUNCTION_LINES:
            yield f"{label(path)}:{line}: {name} has {length} lines"


def skips(path: Path) -> Iterator[str]:
    """Yield each place that skips a test or expects it to fail."""
    for line, name in read(path).skips:
        yield f"{label(path)}:{line}: {name}"


def broken_links(path: Path) -> Iterator[str]:
    """Yield each link of a document that leads to no file of this repository."""
    for target in LINK.findall(path.read_text()):
        if "://" not in target and not (path.parent / target).exists():
            yield f"{label(path)}: {target} does not exist"


RULES = {
    "core is pure and imports only what stands below": (CORE, wrong_imports),
    "core calls nothing impure": ([*CORE, *SIMULATED], impure_calls),
    "simulated lessons are pure": (SIMULATED, impure_imports),
    "algorithms are pure and stand alone": (ALGORITHMS, beside_the_algorithms),
    "programs do not import each other": (SOURCES, foreign_imports),
    "a room of the daemon imports only what stands below": (DAEMON, upward_imports),
    "the daemon keeps to the contract of the core": (DAEMON, beyond_the_contract),
    "modules and functions fit in a head": (SOURCES, what_is_too_long),
    "no test is skipped": (SOURCES, skips),
    "links of documents lead to files": (DOCUMENTS, broken_links),
}
"""The files that each rule is for, and what yields the places of a file that break it."""


@pytest.mark.parametrize("rule", RULES)
def test_every_file_keeps_the_rule(rule: str) -> None:
    paths, breaches = RULES[rule]
    wrong = [breach for path in paths for breach in breaches(path)]
    assert not wrong, "\n".join([rule, *wrong])


def test_no_modules_import_each_other() -> None:
    found = [sorted(circle) for circle in circles_of(imports_between(SOURCES))]
    assert not found, f"{found} import each other: move what both need to the lower one"


@pytest.mark.parametrize(
    ("imports", "circles"),
    [
        ({"a": "bc", "b": "c", "c": ""}, []),
        ({"a": "b", "b": "ac", "c": ""}, ["ab"]),
        ({"a": "b", "b": "c", "c": "da", "d": "c", "e": "f", "f": "ea"}, ["abcd", "ef"]),
        ({"a": "bc", "b": "", "c": "db", "d": "ac"}, ["acd"]),
    ],
)
def test_circles_are_found(imports: dict[str, str], circles: list[str]) -> None:
    assert circles_of(imports) == {frozenset(circle) for circle in circles}


def test_an_import_counts_for_types_and_in_functions_too(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "if TYPE_CHECKING:\n    import groupcomm.errors\n"
        "def f():\n    from groupcomm.clocks import stamp"
    )
    assert {name for _, name in read(path).imports} == {
        "groupcomm.errors",
        "groupcomm.clocks.stamp",
    }


@pytest.mark.parametrize(
    ("module", "name", "why"),
    [
        ("order/queue.py", "time.monotonic", "pure"),
        ("wire/data.py", "random.Random", "pure"),
        ("sim/network.py", "random.Random", None),
        ("sim/network.py", "multiprocessing.Pool", "pure"),
        ("ring/token_holder.py", "groupcomm.link.link.Link", "beside"),
        ("wire/data.py", "groupcomm.stream.stream.Gaps", "below"),
        ("engine.py", "groupcomm.trace.events.Send", "below"),
        ("engine.py", "groupcomm.ring.token_holder.TokenHolder", None),
        ("trace/events.py", "groupcomm.host.trace_file.TraceFile", "sockets"),
    ],
)
def test_the_rules_above_bite(module: str, name: str, why: str | None) -> None:
    verdict = forbidden_import(ROOT / "groupcomm" / module, name)
    assert verdict is None if why is None else why in (verdict or "")


@pytest.mark.parametrize(
    ("text", "breaches"),
    [
        ("from groupcomm.engine import DaemonCore", 1),
        ("import time", 1),
        ("from groupcomm_client import run", 1),
        ("from groupcomm.trace.steps import Given\nfrom groupcomm.clocks.vector import relate", 0),
        ("import enum\nfrom groupcomm_lessons.algorithms.process import Process", 0),
    ],
)
def test_the_rule_of_the_algorithms_bites(text: str, breaches: int, tmp_path: Path) -> None:
    path = tmp_path / "skeen.py"
    path.write_text(text)
    assert len(list(beside_the_algorithms(path))) == breaches


@pytest.mark.parametrize(
    ("text", "breaches"),
    [
        ("self._core.status(now)", 0),
        ("self._core.step(now, [], [])", 1),
        ("core.deliver()", 1),
        ("parts.core.desk.sessions", 1),
        ("config.core.sites", 0),
        ("core.keeper", 1),
        ("from groupcomm.engine import DaemonCore, drive", 0),
        ("from groupcomm.engine.sessions import AbstractSessions", 1),
    ],
)
def test_the_rule_of_the_contract_bites(text: str, breaches: int, tmp_path: Path) -> None:
    path = tmp_path / "shell.py"
    path.write_text(text)
    assert len(list(beyond_the_contract(path))) == breaches


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    document = tmp_path / "tour.md"
    document.write_text("[here](tour.md) [there](gone.py) [web](https://a.b/c) [part](tour.md#end)")
    assert list(broken_links(document)) == [f"{document}: gone.py does not exist"]
