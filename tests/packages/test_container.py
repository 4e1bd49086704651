"""The files for containers: what they copy, install, run and open is there. None is built here."""

import re
import shlex
import socket
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from groupcomm.host.addresses import DEFAULT_PORT, SYSTEM_FOLDER, TLS_PORT, Address
from groupcomm.host.key_file import write_key_file
from groupcomm_tools.cli import make_parser as tools_parser
from groupcommd.cli import make_parser as daemon_parser
from groupcommd.config.config_file import read_config
from groupcommd.http.server import PATHS
from groupcommd.programs.token_file import add_token

ROOT: Final = Path(__file__).parents[2]
TEXT: Final = (ROOT / "daemon/packages/Containerfile").read_text()
LINES: Final = [
    line
    for line in TEXT.replace("\\\n", " ").splitlines()
    if line.strip() and not line.startswith("#")
]
OWN: Final = Address("10.0.0.1", DEFAULT_PORT)
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
    known = {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE"}
    known |= {"HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT"}
    assert {line.split()[0] for line in LINES} == known
    assert LINES[0].startswith("FROM ")
    assert of("ARG") == ["MORE="]


def test_what_it_copies_and_installs_from_is_there() -> None:
    for text in of("COPY"):
        *sources, _ = [word for word in text.split() if not word.startswith("--")]
        inside = "--from=build" in text
        assert all(inside or (ROOT / source).exists() for source in sources), text
    files = re.findall(r"--requirement (\S+)", " ".join(of("RUN")))
    assert files == [".ci/lock/build.txt", ".ci/lock/base.txt", ".ci/lock/$MORE.txt}"]
    for name in (*files[:2], ".ci/lock/tools.txt"):
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
    assert command(of("HEALTHCHECK")[0]) == ["alive"]
    assert entry in PROJECT["scripts"]
    run = re.search(r"^#  +podman run (.*?)\n[^#]", TEXT, re.DOTALL | re.MULTILINE)
    assert run is not None
    given = shlex.split(run[1].replace("#", " ").replace("\\\n", " "))
    behind = given[given.index("groupcomm") + 1 :]  # the words behind the name of the image
    here = str(ROOT / "pyproject.toml")
    words = [here if word == "/etc/groupcomm/cluster.toml" else word for word in arguments]
    options = daemon_parser().parse_args([*words, *behind])
    assert (str(options.config), options.name) == (here, "alfa")


def test_folders_and_ports_are_those_of_the_daemon() -> None:
    environment = dict(word.split("=", 1) for text in of("ENV") for word in text.split())
    made = " ".join(of("RUN"))
    assert f"{environment['XDG_RUNTIME_DIR']}/groupcomm" == str(SYSTEM_FOLDER)
    for folder in (environment["STATE_DIRECTORY"], str(SYSTEM_FOLDER)):
        assert re.search(rf"install --directory --owner groupcomm --mode 0700.* {folder}\b", made)
    assert of("VOLUME") == [environment["STATE_DIRECTORY"]]
    (user,) = of("USER")
    assert f"useradd --system --uid {user} " in made
    assert of("EXPOSE") == [f"{DEFAULT_PORT}/udp {TLS_PORT}/tcp"]


@pytest.mark.parametrize("instruction", ["RUN", "ENTRYPOINT"])
def test_nothing_runs_that_was_not_installed(instruction: str) -> None:
    known = {"python", "/opt/groupcomm/bin/pip", "useradd", "install", "groupcommd"}
    for text in of(instruction):
        parts = [command(text)[0]] if text.startswith("[") else text.split("&&")
        assert {part.split()[0] for part in parts} <= known


def test_the_build_gets_what_it_needs_and_nothing_else() -> None:
    kept = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert all((ROOT / name).exists() for name in kept)
    needed = {".ci/lock", ".ci/readme.py", "README.md", "pyproject.toml", *PROJECT["license-files"]}
    assert set(kept) == needed | {"clients", "daemon", "groupcomm"}


@pytest.mark.parametrize(("answer", "status"), [(b"200 OK", 0), (b"503 No", 1), (b"", 1)])
def test_the_check_of_health_asks_by_http(answer: bytes, status: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        text = (ROOT / "daemon/packages/alive").read_text()
        check = tmp_path / "alive"
        check.write_text(text.replace("4805", str(listening.getsockname()[1])))
        with subprocess.Popen(["bash", check]) as asking:
            with listening.accept()[0] as connection:
                with connection.makefile("rb") as asked:  # bash writes a line at a time
                    lines = list(iter(asked.readline, b"\r\n"))
                assert lines[:2] == [b"GET /livez HTTP/1.1\r\n", b"Host: localhost\r\n"]
                connection.sendall(b"HTTP/1.1 " + answer + b"\r\n\r\n" if answer else b"")
            assert asking.wait() == status


# ---- compose and Kubernetes ----


def config_of(text: str, folder: Path) -> Path:
    """Write a configuration of several daemons, with its secrets in a folder; return its path."""
    write_key_file(folder / "plant.key")
    add_token(folder / "http.tokens", "prometheus")
    path = folder / "cluster.toml"
    path.write_text(re.sub(r'"/var/lib/groupcomm/keys/([\w.]+)"', rf'"{folder}/\1"', text))
    return path


def test_the_daemons_of_compose_are_those_of_its_configuration(tmp_path: Path) -> None:
    compose = yaml.safe_load((ROOT / "daemon/packages/compose.yaml").read_text())
    path = config_of(compose["configs"]["cluster"]["content"], tmp_path)
    services = {name: each for name, each in compose["services"].items() if name != "key"}
    for name, service in services.items():
        options = daemon_parser().parse_args(["--config", str(path), *service["command"]])
        assert options.name == name
        config = read_config(path, name=name, state_dir=tmp_path, own=OWN)
        assert set(config.core.daemons) == services.keys()
        assert compose["volumes"].keys() >= {each.split(":")[0] for each in service["volumes"]}


def test_pods_have_the_probes_ports_and_times_of_the_daemon(tmp_path: Path) -> None:
    text = (ROOT / "daemon/packages/kubernetes/groupcomm.yaml").read_text()
    found = {each["kind"]: each for each in yaml.safe_load_all(text)}
    path = config_of(found["ConfigMap"]["data"]["cluster.toml"], tmp_path)
    stateful = found["StatefulSet"]["spec"]
    pods = [f"groupcomm-{number}" for number in range(stateful["replicas"])]
    config = read_config(path, name=pods[0], state_dir=tmp_path, own=OWN)
    assert set(config.core.daemons) == set(pods)
    pod = stateful["template"]["spec"]
    (container,) = pod["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {"daemons": DEFAULT_PORT, "programs": TLS_PORT, "http": 4805}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["path"] in PATHS
    command, *words = container["lifecycle"]["preStop"]["exec"]["command"]
    drain = tools_parser(words[:1]).parse_args(words)
    assert command in PROJECT["scripts"]
    assert drain.within_s + config.core.leave_timeout_s + 3 < pod["terminationGracePeriodSeconds"]
    assert str(pod["securityContext"]["runAsUser"]) == of("USER")[0]
    assert found["Service"]["metadata"]["name"] == stateful["serviceName"]
    assert found["PodDisruptionBudget"]["spec"]["maxUnavailable"] < len(pods) / 2
    script = pod["initContainers"][0]["command"][-1]
    state, secret = tmp_path / "state", tmp_path / "secret"
    state.mkdir()
    secret.mkdir()
    (secret / "plant.key").write_text("first")
    (secret / "http.tokens").write_text("")
    script = script.replace("/var/lib/groupcomm", str(state)).replace("/secret", str(secret))
    for text in ("first", "second"):  # the daemon's own copy stays
        subprocess.run(["sh", "-ec", script], check=True)
        assert (state / "keys/plant.key").read_text() == "first"
        (secret / "plant.key").write_text(text)
    assert (state / "keys/plant.key").stat().st_mode & 0o777 == 0o600
