"""The rules of the code base that no linter knows: purity, layers, sizes."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path
    for folder in ("groupcomm", "daemon", "clients", "tests", "examples")
    for path in (ROOT / folder).rglob("*.py")
)
CORE = [path for path in SOURCES if path.is_relative_to(ROOT / "groupcomm")]

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60

PURE = frozenset(
    """
    __future__ abc array bisect collections contextlib copy dataclasses enum functools hashlib heapq
    hmac itertools math operator re string struct types typing unicodedata
    attrs cryptography google_crc32c msgspec groupcomm
    """.split()  # noqa: SIM905 - words read better than thirty quoted lines
)
"""What the core may import: nothing here does I/O, reads a clock or draws random numbers."""

PURE_EXCEPTIONS = {
    "sim": frozenset({"random"}),  # only ever Random(seed)
}

IMPURE_CALLS = frozenset({"open", "print", "input", "eval", "exec", "hash"})
"""`hash` differs between runs for str and bytes, and so would a trace that depends on it."""

LAYERS = (
    {"errors", "visible"},
    {"level", "names"},
    {"clocks"},
    {"config", "events"},
    {"wire"},
    {"security"},
    {"stream"},
    {"ring", "hop"},
    {"order"},
    {"membership"},
    {"groups"},
    {"session"},
    {"core"},
    {"trace"},
    {"sim", "algorithms"},
)
"""Bottom up. A layer imports only what stands below it, and those of one row not each other."""

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

SHELLS_MAY_IMPORT = {
    "groupcommd": frozenset({"groupcomm", "groupcommd"}),
    "groupcomm_client": frozenset(
        {"groupcomm", "groupcomm_client", "groupcomm_log", "groupcomm_spark", "groupcommd"}
    ),
    "groupcomm_log": frozenset({"groupcomm_log"}),
    "groupcomm_spark": frozenset(
        {"groupcomm", "groupcomm_client", "groupcomm_log", "groupcomm_spark"}
    ),
    "pyspark_groupcomm": frozenset({"groupcomm_spark"}),
}
"""Which packages of this project each program may import."""


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def layer_of(path: Path) -> str:
    """The part of the core that a module below groupcomm/ belongs to; '' for the package."""
    first = path.relative_to(ROOT / "groupcomm").parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of everything a module imports, in functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{label(path)}:{node.lineno}: imports here are absolute"
            assert node.module is not None
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"


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
    if own == "algorithms" or other == "algorithms":
        below = own == other or RANK.get(other, 99) <= RANK["clocks"]
        below |= name.startswith("groupcomm.trace.steps.")  # the one vocabulary of all traces
        return None if below or own == "sim" else f"imports {name}: algorithms stand alone"
    if other not in RANK or own not in RANK:
        return f"imports {name}: give both {own!r} and {other!r} a row in LAYERS"
    if own != other and RANK[other] >= RANK[own]:
        return f"imports {name}: {own} stands below or beside {other}"
    return None


@pytest.mark.parametrize("path", CORE, ids=label)
def test_core_is_pure_and_imports_only_what_stands_below(path: Path) -> None:
    wrong = [
        f"{label(path)}:{line}: {why}"
        for line, name in imports(path)
        if (why := forbidden_import(path, name)) is not None
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", CORE, ids=label)
def test_core_calls_nothing_impure(path: Path) -> None:
    wrong = [
        f"{label(path)}:{node.lineno}: calls {node.func.id}()"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in IMPURE_CALLS
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", sorted(SHELLS_MAY_IMPORT))
def test_programs_do_not_import_each_other(package: str) -> None:
    ours = {"groupcomm", *SHELLS_MAY_IMPORT}
    wrong = [
        f"{label(path)}:{line}: imports {name}"
        for path in SOURCES
        if package in path.parts
        for line, name in imports(path)
        if (top := name.split(".")[0]) in ours and top not in SHELLS_MAY_IMPORT[package]
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_modules_and_functions_fit_in_a_head(path: Path) -> None:
    text = path.read_text()
    lines = text.count("\n")
    wrong = [f"{label(path)}: {lines} lines"] if lines > MAX_MODULE_LINES else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            length = node.end_lineno - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                wrong.append(f"{label(path)}:{node.lineno}: {node.name} has {length} lines")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", SOURCES, ids=label)
def test_no_test_is_skipped(path: Path) -> None:
    skips = {"skip", "skipif", "xfail", "importorskip"}
    wrong = [
        f"{label(path)}:{node.lineno}: {node.attr}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in skips
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "name", "why"),
    [
        ("order/queue.py", "time.monotonic", "pure"),
        ("wire/data.py", "random.Random", "pure"),
        ("sim/network.py", "random.Random", None),
        ("sim/network.py", "multiprocessing.Pool", "pure"),
        ("ring/token_holder.py", "groupcomm.hop.link.Link", "beside"),
        ("wire/data.py", "groupcomm.stream.gaps.Gaps", "below"),
        ("core.py", "groupcomm.trace.events.Send", "below"),
        ("core.py", "groupcomm.ring.token_holder.TokenHolder", None),
        ("algorithms/skeen.py", "groupcomm.core.DaemonCore", "alone"),
    ],
)
def test_the_rules_above_bite(module: str, name: str, why: str | None) -> None:
    verdict = forbidden_import(ROOT / "groupcomm" / module, name)
    assert verdict is None if why is None else why in (verdict or "")
