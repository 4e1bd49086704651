"""The first five minutes of docs/security.md work when they are pasted."""

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from groupcomm.events import Message
from groupcomm.host.addresses import SOCKET_NAME
from groupcomm_client.blocking import connect

PAGE: Final = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
PATIENCE_S: Final = 20.0
HOSTS: Final = ("10.0.0.1", "10.0.0.2")  # the addresses of the page


def blocks(head: str) -> list[str]:
    """The blocks of a part of the page, as they are pasted."""
    text = PAGE[PAGE.index(head) :].split("\n## ")[0]
    return re.findall(r"^```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Plant:
    """Two daemons on addresses of this host, in folders as on hosts of their own, and a program's.

    Attributes:
        addresses: the addresses in place of those of the page.
    """

    def __init__(self, folder: Path) -> None:
        self.runtime = tempfile.TemporaryDirectory(prefix="gc-")  # paths of sockets must be short
        middle = f"127.{1 + secrets.randbelow(254)}.{1 + secrets.randbelow(254)}"
        self.addresses = dict(zip(HOSTS, (f"{middle}.1", f"{middle}.2"), strict=True))
        self.folder = folder
        self.daemons, self.program = folder / "daemons", folder / "program"
        for each in (self.daemons, self.program):
            each.mkdir(mode=0o700)

    def here(self, text: str) -> str:
        for host, address in self.addresses.items():
            text = text.replace(host, address)
        return text

    def run(self, text: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Paste lines into a shell."""
        return subprocess.run(
            ["sh", "-e", "-c", self.here(text)],
            cwd=folder,
            env=self.environment("shell"),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment of a host: its own runtime folder, and these programs."""
        runtime = Path(self.runtime.name) / name
        runtime.mkdir(mode=0o700, exist_ok=True)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        state = {"XDG_RUNTIME_DIR": str(runtime), "XDG_STATE_HOME": str(runtime)}
        return {**os.environ, **state, "PATH": path}

    def socket(self, name: str) -> Path:
        return Path(self.runtime.name) / name / "groupcomm" / SOCKET_NAME

    @contextmanager
    def daemon(self, name: str, command: str) -> Iterator[None]:
        command = self.here(command).replace("--name press", f"--name {name}")
        if name != "press":
            command = command.replace("plant.toml", f"{name}.toml")
        log = self.folder / f"{name}.log"
        with (
            log.open("w") as file,
            subprocess.Popen(
                command.split(), cwd=self.daemons, env=self.environment(name), stderr=file
            ) as process,
        ):
            try:
                self.until_there(name, process, log)
                yield
            finally:
                process.terminate()

    def until_there(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        end = time.monotonic() + PATIENCE_S
        while not self.socket(name).exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)


def test_the_first_five_minutes_work_as_they_are_pasted(tmp_path: Path) -> None:
    keys, config, daemon, program, command = blocks("## In five minutes")
    plant = Plant(tmp_path)
    issue = next(line for line in keys.splitlines() if "certs issue" in line)
    for_oven = issue.replace("press", "oven").replace(*HOSTS)
    done = plant.run(keys + for_oven, plant.daemons)
    assert done.returncode == 0, done.stderr
    config = plant.here(config)
    (plant.daemons / "plant.toml").write_text(config)
    (plant.daemons / "oven.toml").write_text(config.replace("pki/press", "pki/oven"))
    for copied in ("pki/ca.pem", "sensor.token"):
        shutil.copy(plant.daemons / copied, plant.program)
    (plant.program / "first.py").write_text(plant.here(program))

    with plant.runtime, ExitStack() as stack:
        for name in ("press", "oven"):
            stack.enter_context(plant.daemon(name, daemon))
        oven = stack.enter_context(connect(str(plant.socket("oven")), user="cook"))
        end = time.monotonic() + PATIENCE_S
        while oven.ask("status")["daemons"] != ["oven", "press"]:
            assert time.monotonic() < end, "they do not find each other"
        status = oven.ask("status")
        assert set(status["datagrams"]["rejected"]) <= {"unproven", "hello", "replay"}
        oven.join("chat")

        shown = plant.run("python first.py", plant.program)
        assert "#cook#oven" in shown.stdout, shown.stderr
        assert "#press" in shown.stdout
        told = plant.run(command, plant.program)
        assert told.returncode == 0, told.stderr
        message = next(event for event in oven if isinstance(event, Message))
        assert message.data == b"hello"
        principals = oven.ask("members chat")["principals"]
        assert principals == {"#cook#oven": principals["#cook#oven"]}
