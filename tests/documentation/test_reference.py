"""The reference has everything that is public, and what it says of the code is so.

These tests read the pages as Sphinx does, without Sphinx; test_site.py builds them.
"""

import ast
import enum
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import attrs
import pytest

import groupcomm_client
from docs.extensions import api_pages, code_tables, command_pages, docstrings, markdown
from docs.extensions.public_names import MODULES, PublicName, public_names, tree_of, value_of
from docs.extensions.reference import expand, whole_name
from groupcomm.errors import Code, ConfigError
from groupcomm.host.parser import Parser, example_text
from groupcomm_tools.cli import COMMANDS
from groupcommd.config.config_file import read_config
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.http.metrics import METRICS
from groupcommd.service import RELOADED

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "docs" / "reference"

DESCRIBED: Final = re.compile(
    r"^\.\. (?:auto(?:class|exception|function):: (\S+)|py:data:: (\S+)\n +:module: (\S+))$", re.M
)


@functools.cache
def shown(page: str) -> str:
    """Return the text of a page of the reference with all that its code adds to it."""
    return expand((FOLDER / f"{page}.md").read_text())


def described_on(page: str) -> list[str]:
    """Return the dotted names that a page describes."""
    return [full or f"{module}.{name}" for full, name, module in DESCRIBED.findall(page)]


# ---- nothing is missing ----

GUIDES: Final = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/*.md")])


def test_what_guides_call_by_the_name_of_the_library_is_there() -> None:
    names = {name for path in GUIDES for name in re.findall(r"\bgc\.([\w.]*\w)", path.read_text())}
    assert names >= {"connect", "format_position", "aio.run"}
    for name in names:
        functools.reduce(getattr, name.split("."), groupcomm_client)


def test_every_public_name_is_described_once_or_leads_to_where_it_is() -> None:
    everything = "\n".join(shown(path.stem) for path in sorted(FOLDER.glob("*.md")))
    described = described_on(everything)
    assert sorted({*described}) == sorted(described)
    assert {*described} == {each.first for each in public_names()}
    links = {*re.findall(r"\{py:obj\}`(\S+) <(\S+)>`", everything)}
    shown_by_main_module = {
        (each.name, each.first) for each in public_names() if each.first.count(".") == 1
    }
    others = {(each.name, each.first) for each in public_names() if each.first != each.full}
    assert others <= links | shown_by_main_module


def test_every_public_module_exists_and_has_names() -> None:
    assert {each.module for each in public_names()} == {*MODULES}


def test_everything_public_has_a_docstring_a_comment_or_a_value() -> None:
    silent = [each.full for each in public_names() if not said_about(each.first)]
    assert not silent


def raised_in(node: ast.AST, caught: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the classes that a function raises by name, without those that it catches itself."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Try):
            names = {
                part.id
                for handler in child.handlers
                if handler.type is not None
                for part in ast.walk(handler.type)
                if isinstance(part, ast.Name)
            }
            yield from raised_in(ast.Module(child.body, []), caught | names)
            outside = [each for handler in child.handlers for each in handler.body]
            outside += [*child.orelse, *child.finalbody]
            yield from raised_in(ast.Module(outside, []), caught)
        elif not isinstance(child, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            if isinstance(child, ast.Raise):
                error = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
                if isinstance(error, ast.Name) and error.id[0].isupper():
                    yield from {error.id} - caught
            yield from raised_in(child, caught)


FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)

MADE_BY: Final = ("__init__", "__attrs_post_init__")
"""Methods that belong to the docstring of their class, too."""


def functions_of(each: PublicName) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield the functions of a public name, each with its name and docstring."""
    for node in tree_of(each.origin).body:
        if isinstance(node, FUNCTIONS) and node.name == each.defined:
            yield each.full, node, ast.get_docstring(node) or ""
        elif isinstance(node, ast.ClassDef) and node.name == each.defined:
            of_class = ast.get_docstring(node) or ""
            for part in node.body:
                if isinstance(part, FUNCTIONS):
                    said = ast.get_docstring(part) or ""
                    if part.name in MADE_BY:
                        yield f"{each.full}.{part.name}", part, said + of_class
                    elif not part.name.startswith("_"):
                        yield f"{each.full}.{part.name}", part, said


def test_docstrings_of_public_functions_name_what_they_raise() -> None:
    functions = [
        (name, set(raised_in(node)), said)
        for each in public_names()
        for name, node, said in functions_of(each)
    ]
    assert sum(bool(raised) for _, raised, _ in functions) > 30, "the sweep finds them"
    unnamed = {
        f"{name} raises {error}"
        for name, raised, said in functions
        for error in raised
        if error not in said
    }
    assert not unnamed


def said_about(name: str) -> str:
    """Return what the code says about a public name."""
    each = next(each for each in public_names() if each.full == name)
    value = value_of(each.module, each.name)
    text = api_pages.describe_names(each.module, [each.name])
    if "\n.. auto" in text:
        return value.__doc__ or ""
    _, _, said = text.partition(f".. py:data:: {each.name}\n")
    return re.sub(r"^ +:(canonical|module): .*$", "", said, flags=re.M).strip("`\n")


def python_of_documents() -> Iterator[tuple[str, ast.Module]]:
    """Yield each Python block of the guides, with the name of its page."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text()
        for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
            try:
                yield path.name, ast.parse(block)
            except SyntaxError:
                continue  # a part of a program


NOT_FOR_USERS: Final = {
    "CONTRIBUTING.md": "how to change groupcomm itself",
    "spread-example.md": "shows Spread's own names",
}


def test_what_guides_import_is_public() -> None:
    public = {each.full for each in public_names()} | {*MODULES}
    private = [
        f"{page}: {node.module}.{alias.name}"
        for page, tree in python_of_documents()
        if page not in NOT_FOR_USERS
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("groupcomm")
        for alias in node.names
        if alias.name != "*" and f"{node.module}.{alias.name}" not in public
    ]
    assert not private


def test_every_verb_has_a_page_with_its_options() -> None:
    pages = {name: command_pages.describe_page(name) for name in command_pages.page_names()}
    parsers = [*command_pages.all_parsers()]
    assert {f"groupcomm {name}" for name in COMMANDS} <= {each.prog for each in parsers}
    for parser in parsers:
        page = pages[parser.prog.removeprefix("groupcomm ").split()[0]]
        part = re.search(rf"^#+ {re.escape(parser.prog)}\n(.*?)(?=^#|\Z)", page, re.M | re.S)
        assert part, parser.prog
        for action in command_pages.actions_of(parser):
            assert command_pages.words_of(action) in part[1], (parser.prog, action.dest)
        assert "```sh\n" in part[1]
        assert "\n- 0: " in part[1]


def test_the_page_of_commands_has_the_table_of_the_exit_statuses() -> None:
    rows = re.findall(
        r"^\| \{doc\}`(\w+) <commands/\w+>` \| (.+) \| (yes|no) \|$", shown("commands"), re.M
    )
    assert rows == [
        (name, each.fails, "yes" if each.connects else "no") for name, each in COMMANDS.items()
    ]


def test_every_key_of_a_file_is_on_the_page_of_the_configuration() -> None:
    page = shown("configuration")
    keys = code_tables.configuration_keys()
    assert len({key.name for key in keys}) == len(keys)
    for key in keys:
        assert f"\n| `{key.name.rpartition('.')[2]}` | " in page, key.name
        assert key.text, key.name


def test_every_error_and_number_is_on_the_page_of_errors() -> None:
    page = shown("errors")
    for name, _ in code_tables.public_errors():
        assert f" <{name}>`: " in page
    for code in Code:
        assert f"| `{code.value}` | `{code.name}` | " in page


def test_every_event_that_a_program_receives_is_on_the_page_of_events() -> None:
    received = value_of("groupcomm_client", "Received").__args__
    assert {f"groupcomm_client.{kind.__name__}" for kind in received} <= {
        *described_on(shown("events"))
    }


def test_every_field_of_an_event_has_a_type_and_a_place() -> None:
    for kind in value_of("groupcomm_client", "Received").__args__:
        names = [field.name for field in api_pages.fields_of(kind)]
        assert names == [*kind.__annotations__]


def test_every_metric_is_on_its_page() -> None:
    page = expand((ROOT / "docs/metrics.md").read_text())
    assert all(f"| `{metric.name}` | " in page for metric in METRICS)


def test_every_call_of_the_log_of_the_daemon_is_a_line_of_its_page() -> None:
    folder = ROOT / "daemon/groupcommd"
    calls = sum(
        len(re.findall(r"\b_?log\.(?:debug|info|warning|error|critical|exception|log)\(", text))
        + len(re.findall(r"\.line\(", text))
        for text in (path.read_text() for path in folder.rglob("*.py"))
    )
    lines = code_tables.log_lines()
    assert len(lines) >= calls
    assert shown("log").count(".py` |") == len(lines)


# ---- what the page of the configuration says is so ----


def configured(path: Path, text: str) -> DaemonConfig:
    path.write_text(f'name = "a"\n{text}\n')
    path.chmod(0o600)
    return read_config(path, name=None, state_dir=path.parent)


SAMPLES: Final = {
    "access": '[[access]]\nwho = "unix:ann"\nmay = "join"',
    "clients.quotas.groups": "[clients]\nquotas.groups = 5",
    "clients.slow_receivers": '[clients]\nslow_receivers = "block"',
    "clients.block_s": '[clients]\nslow_receivers = "block"\nblock_s = 4',
    "clients.output_cap_bytes": "[clients]\noutput_cap_bytes = 20_000_000",
    "clients.unreliable_drop_bytes": "[clients]\nunreliable_drop_bytes = 7",
    "clients.backlog_cap_bytes": "[clients]\nbacklog_cap_bytes = 7",
    "clients.tokens": '[clients]\ntokens = "t"\n[clients.tls]\ncertificate = "c"\nkey = "k"',
    "cluster": 'cluster = "plant"',
    "clients.unix": '[clients]\nunix = "/tmp/other"',
    "clients.tcp": '[clients]\ntcp = "on"',
    "drain_s": "drain_s = 3",
    "spin": "spin = true",
    "packet_bytes": "packet_bytes = 1200",
    "http.listen": '[http]\nlisten = "127.0.0.1:4805"',
}


@pytest.mark.parametrize("key", SAMPLES)
def test_sighup_changes_the_keys_that_the_page_says(key: str, tmp_path: Path) -> None:
    before = configured(tmp_path / "c.toml", "")
    after = configured(tmp_path / "c.toml", SAMPLES[key])
    changed = {
        name
        for name in attrs.fields_dict(DaemonConfig)
        if getattr(before, name) != getattr(after, name)
    } - {"keys"}
    assert changed
    keys = code_tables.configuration_keys()
    live = next(each.live for each in keys if f"{each.name}.".startswith(f"{key}."))
    assert live == (changed <= RELOADED | {"tls"})


@pytest.mark.parametrize(
    ("key", "lowest", "highest"),
    [
        ("leave_timeout_s", 0, 3600),
        ("drain_s", 0, 3600),
        ("packet_bytes", 600, 60_000),
        ("expected_daemons", 1, None),
        ("clients.backlog_cap_bytes", 1, None),
    ],
)
def test_ranges_of_keys_are_those_of_their_texts(
    key: str, lowest: int, highest: int | None, tmp_path: Path
) -> None:
    text = next(each.text for each in code_tables.configuration_keys() if each.name == key)
    shown = f"from {lowest}" if highest is None else f"{lowest} to {highest}"
    assert shown in text.replace(",", "")
    configured(tmp_path / "c.toml", f"{key} = {lowest}")
    with pytest.raises(ConfigError, match=key.rpartition(".")[2]):
        configured(tmp_path / "c.toml", f"{key} = {lowest - 1}")
    if highest is not None:
        configured(tmp_path / "c.toml", f"{key} = {highest}")
        with pytest.raises(ConfigError, match=key):
            configured(tmp_path / "c.toml", f"{key} = {highest + 1}")


# ---- the parts of which pages are made ----


class Colour(enum.Enum):
    """A colour.

    Attributes:
        RED: it warns,
            and stops.
    """

    RED = 1
    GREEN = 2  # it lets go
    _HIDDEN = 3


@attrs.frozen
class Painted:
    """A thing with a colour; see docs/tour.md.

    Attributes:
        one, other: `Colour` of each side.
    """

    one: Colour
    other: Colour = Colour.RED
    weight: int = 0  # grams
    _secret: int = 1


def test_fields_have_meanings_from_docstrings_and_comments() -> None:
    assert api_pages.fields_of(Painted) == [
        ("one", "`Colour` of each side.", ""),
        ("other", "`Colour` of each side.", "Colour.RED"),
        ("weight", "grams", "0"),
    ]
    assert api_pages.fields_of(Colour) == [
        ("RED", "it warns, and stops.", "1"),
        ("GREEN", "it lets go", "2"),
    ]


def test_a_docstring_gets_its_fields_and_links() -> None:
    lines = docstrings.to_rst((inspect.getdoc(Painted) or "").splitlines(), Painted)
    assert lines[0] == "A thing with a colour; see :doc:`/tour`."
    assert "- ``weight`` = ``0``: grams" in lines
    assert not [line for line in lines if "Attributes:" in line]


def test_a_signature_has_the_defaults_of_the_source() -> None:
    made = "(one: Colour, other: Colour = attr_dict['other'].default)"
    shown = "(one: Colour, other: Colour = Colour.RED)"
    assert docstrings.with_defaults(made, Painted) == shown
    assert docstrings.with_defaults("(x=1)", Painted) == "(x=1)"


def test_a_command_is_described_by_its_parser() -> None:
    parser = Parser(prog="groupcomm paint", description="paint things", epilog="")
    parser.add_argument("what", metavar="THING", help="what | where")
    parser.add_argument("--colour", choices=("red", "green"), default="red", help="its colour")
    parser.add_argument("--twice", action="store_true", help="paint it again")
    parser.epilog = f"exit status: 0 done; 1 no paint; 2 wrong usage\n\n{example_text('paint a')}"
    text = "\n\n".join(command_pages.describe_command(parser, 3))
    assert "### groupcomm paint\n\nPaint things." in text
    assert "| `THING` | what \\| where |" in text
    assert "| `--colour red\\|green` | its colour | `red` |" in text
    assert "| `--twice` | paint it again |  |" in text
    assert "- 1: no paint" in text
    assert text.endswith("```sh\npaint a\n```")


def test_lines_of_a_log_are_found_with_their_levels_and_fields() -> None:
    source = '_log.error("no %s: %.3g s" if x else f"{y} left", a, extra={"daemon": b})\n'
    source += "_log.log(logging.INFO if z else logging.WARNING, text)\n"
    assert code_tables.lines_of(source, "m.py") == [
        ("error", "no ...: ... s", ("daemon",), "m.py"),
        ("error", "... left", ("daemon",), "m.py"),
        ("info or warning", "...", (), "m.py"),
    ]


def test_pages_named_in_a_docstring_are_links() -> None:
    said = "see ``x`` in docs/security.md#access-control, or docs/ordering/a.md"
    linked = "see `x` in [access control](../security.md#access-control), or [a](../ordering/a.md)"
    assert markdown.prose(said) == linked


def test_a_short_name_leads_to_the_main_name() -> None:
    assert whole_name("Message.causes") == "groupcomm_client.Message.causes"
    assert whole_name("bytes") == whole_name("send") == ""


def test_a_block_that_asks_for_nothing_that_there_is_is_an_error() -> None:
    with pytest.raises(LookupError):
        expand("```{generated} nonsense\n```\n")
    with pytest.raises(LookupError, match="Mesage"):
        expand("```{generated} names groupcomm_client Mesage\n```\n")
