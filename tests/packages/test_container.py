"""The container file: what it copies, installs, runs and opens is there. It is not built here."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from groupcomm.host.addresses import DEFAULT_PORT, SYSTEM_FOLDER, TLS_PORT
from groupcomm_tools.cli import make_parser as tools_parser
from groupcommd.cli import make_parser as daemon_parser

ROOT: Final = Path(__file__).parents[2]
TEXT: Final = (ROOT / "daemon/packages/Containerfile").read_text()
LINES: Final = [
    line
    for line in TEXT.replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#")
]
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def of(instruction: str) -> list[str]:
    """Return the arguments of each of these instructions."""
    found = [line.partition(" ")[2] for line in LINES if line.startswith(f"{instruction} ")]
    assert found, instruction
    return found


def command(text: str) -> list[str]:
    """Return the words of a command in brackets."""
    words: list[str] = re.findall(r'"([^"]*)"', text[text.index("[") :])
    return words


def test_there_are_only_instructions_that_each_builder_knows() -> None:
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE"}
    known |= {"HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT"}
    assert {line.split()[0] for line in LINES} == known
    assert LINES[0].startswith("FROM ")


def test_what_it_copies_and_installs_from_is_there() -> None:
    for text in of("COPY"):
        *sources, _ = [word for word in text.split() if not word.startswith("--")]
        inside = "--from=build" in text
        assert all(inside or (ROOT / source).exists() for source in sources), text
    files = re.findall(r"--requirement (\S+)", " ".join(of("RUN")))
    assert files == [".ci/lock/build.txt", ".ci/lock/base.txt"]
    for name in files:
        assert "--hash=sha256:" in (ROOT / name).read_text()
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    locked = (ROOT / files[0]).read_text()
    assert all(re.split(r"[<>=]", name)[0] + "==" in locked for name in build)
    assert (ROOT / PROJECT["license-files"][0]).exists()


def test_its_python_is_one_that_the_project_is_for() -> None:
    versions = set(re.findall(r"python:(\d+\.\d+)-slim", "\n".join(of("FROM"))))
    (version,) = versions
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]


def test_its_commands_and_their_options_are_those_of_the_project() -> None:
    entry, *arguments = command(of("ENTRYPOINT")[0])
    health, *asked = command(of("HEALTHCHECK")[0])
    assert {entry, health} <= PROJECT["scripts"].keys()
    run = re.search(r"^#  +podman run (.*?)\n[^#]", TEXT, re.DOTALL | re.MULTILINE)
    assert run is not None
    given = shlex.split(run[1].replace("#", " ").replace("\\\n", " "))
    behind = given[given.index("groupcomm") + 1 :]  # the words behind the name of the image
    here = str(ROOT / "pyproject.toml")
    words = [here if word == "/etc/groupcomm/cluster.toml" else word for word in arguments]
    options = daemon_parser().parse_args([*words, *behind])
    assert (str(options.config), options.name) == (here, "alfa")
    tools_parser(asked[:1]).parse_args(asked)


def test_folders_and_ports_are_those_of_the_daemon() -> None:
    environment = dict(word.split("=", 1) for text in of("ENV") for word in text.split())
    made = " ".join(of("RUN"))
    assert f"{environment['XDG_RUNTIME_DIR']}/groupcomm" == str(SYSTEM_FOLDER)
    for folder in (environment["STATE_DIRECTORY"], str(SYSTEM_FOLDER)):
        assert re.search(rf"install --directory --owner groupcomm --mode 0700.* {folder}\b", made)
    assert of("VOLUME") == [environment["STATE_DIRECTORY"]]
    assert of("USER") == ["groupcomm"]
    assert of("EXPOSE") == [f"{DEFAULT_PORT}/udp {TLS_PORT}/tcp"]


@pytest.mark.parametrize("instruction", ["RUN", "ENTRYPOINT"])
def test_nothing_runs_that_was_not_installed(instruction: str) -> None:
    known = {"python", "/opt/groupcomm/bin/pip", "useradd", "install", "groupcommd"}
    for text in of(instruction):
        parts = [command(text)[0]] if text.startswith("[") else text.split("&&")
        assert {part.split()[0] for part in parts} <= known
