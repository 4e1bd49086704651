"""The pods of groupcomm.yaml in namespaces: its commands, probes, times and signals, under load.

    python -m tests.verification.campaigns pods --pods 3

Each pod is a node with a network of its own, and a folder in place of its claim. What Kubernetes
does is done here: `rollout restart` (from the last pod to the first: preStop, SIGTERM, at most the
grace period, init container, daemon, and the next pod once this one is ready); the loss of a node,
which is killed with its cable pulled, and comes back; two pods more, and two less, as
docs/install.md says. In each pod a program sends AGREED messages, and moves if its daemon goes;
another one reads as long as its daemon runs. A reader must get the messages of each sender once, in
order and without a gap, but for what a sender was told to be in doubt. It needs root. Prints a line
of JSON for each step, with the longest silence of a reader that stayed, and one for the whole.
"""

import json
import subprocess
import sys
import time
from argparse import Namespace
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import trio
import yaml

from groupcomm.errors import GroupCommError, SessionEnded
from groupcomm.events import DaemonStopping, Message
from groupcomm.host.key_file import write_key_file
from groupcomm_client import Connection, Reconnected, connect
from groupcomm_tools.terminal import say
from groupcommd.programs.token_file import add_token
from tests.groupcommd.namespaces import why_not
from tests.verification.campaigns.peers.nodes import Node, open_nodes, run
from tests.verification.campaigns.runner import Found, NotHere, campaign, option

MANIFEST: Final = Path("daemon/packages/kubernetes/groupcomm.yaml")
ENTRY: Final = ("groupcommd", "--config", "/etc/groupcomm/cluster.toml")
"""The entry point of the image, as test_container.py has it."""

MTU: Final = 1500
MORE: Final = 2
GROUP: Final = "g"
HTTP: Final = 4805
AWAY_S: Final = 3.0
SETTLED_S: Final = 1.0
ENDS_S: Final = 60.0


@attrs.frozen
class Manifest:
    """What the file says of a pod.

    Attributes:
        config: the text of cluster.toml.
        script: the one of the init container.
        pre_stop: the command before a stop.
        ready_s: the time between two checks whether a pod is ready.
        grace_s: the time that a pod has for its end.
    """

    config: str
    script: str
    pre_stop: Sequence[str]
    ready_s: float
    grace_s: float


def read_manifest() -> Manifest:
    """Return what the file says."""
    found = {each["kind"]: each for each in yaml.safe_load_all(MANIFEST.read_text())}
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return Manifest(
        found["ConfigMap"]["data"]["cluster.toml"],
        pod["initContainers"][0]["command"][-1],
        container["lifecycle"]["preStop"]["exec"]["command"],
        container["readinessProbe"]["periodSeconds"],
        pod["terminationGracePeriodSeconds"],
    )


class Pod:
    """One pod; its folders are those of the image, below a folder of its own.

    Attributes:
        name: its name, and that of its daemon.
        node: where it runs.
    """

    def __init__(self, folder: Path, number: int, node: Node, manifest: Manifest) -> None:
        self.name, self.node = f"groupcomm-{number}", node
        self._folder, self._manifest = folder / self.name, manifest
        self._process: subprocess.Popen[bytes] | None = None
        for inner in ("var/lib/groupcomm", "etc/groupcomm", "run"):
            (self._folder / inner).mkdir(mode=0o700, parents=True)
        self._variables = (
            f"STATE_DIRECTORY={self._folder}/var/lib/groupcomm",
            f"XDG_RUNTIME_DIR={self._folder}/run",
            f"PATH={Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        hosts = folder / "hosts"
        run(*node.prefix, "mount", "--bind", str(hosts), "/etc/hosts")

    @property
    def address(self) -> str:
        """Return the socket of its daemon."""
        return str(self._folder / "run/groupcomm/groupcomm.sock")

    @property
    def log(self) -> Path:
        """Return the file of what its daemon says."""
        return self._folder / "log"

    def configure(self, config: str) -> None:
        """Mount this configuration."""
        path = self._folder / "etc/groupcomm/cluster.toml"
        path.write_text(self._inside(config))

    def _inside(self, text: str) -> str:
        for outer in ("/var/lib/groupcomm", "/etc/groupcomm"):
            text = text.replace(outer, f"{self._folder}{outer}")
        return text.replace("/secret", f"{self._folder.parent}/secret")

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs something in the pod."""
        return [*self.node.prefix, "env", *self._variables, *words]

    async def start(self) -> None:
        """Run the init container and the daemon, and wait until the pod is ready."""
        run(*self.command("sh", "-ec", self._inside(self._manifest.script)))
        words = [self._inside(word) for word in (*ENTRY, "--name", self.name)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self.command(*words), stdout=log, stderr=log)
        with trio.fail_after(ENDS_S):
            while await self._ask("/readyz") != "200":
                await trio.sleep(self._manifest.ready_s)

    async def _ask(self, path: str) -> str:
        """Return the status of an answer of HTTP; empty if there is none."""
        asking = (
            f"exec 3<>/dev/tcp/{self.node.address}/{HTTP}"
            f" && printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3"
            " && read -r _ status _ <&3 && echo $status"
        )
        command = [*self.node.prefix, "timeout", "5", "bash", "-c", asking]
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False
        )
        return done.stdout.decode().strip()

    async def stop(self) -> float:
        """End the pod as Kubernetes does; return the seconds that it took.

        Raises:
            GroupCommError: it has not ended by itself in its time.
        """
        begun = time.monotonic()
        assert self._process is not None
        command = self.command(*self._manifest.pre_stop)
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False
        )
        self._process.terminate()
        with trio.move_on_after(self._manifest.grace_s - (time.monotonic() - begun)):
            while self._process.poll() is None:
                await trio.sleep(0.01)
        if self._process.poll() is None or done.returncode:
            told = done.stderr.decode()
            raise GroupCommError(f"{self.name}: preStop ends with {done.returncode}: {told}")
        return time.monotonic() - begun

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Plant:
    """The pods, and the programs in them.

    Attributes:
        pods: all that run, in their order.
        violations: what must not be.
    """

    def __init__(self, pods: Sequence[Pod], manifest: Manifest, rate: float) -> None:
        self._all, self._manifest, self._rate = pods, manifest, rate
        self.pods: list[Pod] = []
        self.violations: list[str] = []
        self.sent: dict[str, int] = {}
        self.doubts = 0
        self.steps: list[dict[str, Any]] = []
        self._silences: dict[str, float] = {}
        self._over = False

    def configure(self, count: int) -> None:
        """Have the configuration list so many pods."""
        text, _, _ = self._manifest.config.rpartition("[sites.local.daemons]")
        lines = [f'{pod.name} = "{pod.name}.groupcomm:4803"\n' for pod in self._all[:count]]
        for pod in self._all:
            pod.configure(f"{text}[sites.local.daemons]\n{''.join(lines)}")

    # ---- programs ----

    async def send(self, pod: Pod) -> None:
        """Send at a rate; go on at another daemon if this one goes."""
        others = [each.address for each in self._all if each is not pod]
        addresses = ",".join([pod.address, *others])
        number = 0
        async with connect(addresses, reconnect=True) as connection, trio.open_nursery() as tasks:
            tasks.start_soon(self._count_doubts, connection)
            while not self._over:
                await connection.multicast(GROUP, f"{pod.name} {number}".encode())
                number += 1
                self.sent[pod.name] = number
                await trio.sleep(1 / self._rate)
            tasks.cancel_scope.cancel()

    async def _count_doubts(self, connection: Connection) -> None:
        async for event in connection:
            if isinstance(event, Reconnected):
                self.doubts += event.in_doubt

    async def read(
        self, pod: Pod, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Read as long as the daemon runs; judge what came."""
        got: defaultdict[str, list[int]] = defaultdict(list)
        last = time.monotonic()
        with suppress(SessionEnded):
            async with connect(pod.address) as connection:
                await connection.join(GROUP)
                self._silences[pod.name] = 0.0
                task_status.started()
                async for event in connection:
                    if isinstance(event, DaemonStopping):
                        break
                    if not isinstance(event, Message):
                        continue
                    sender, _, number = event.data.decode().partition(" ")
                    got[sender].append(int(number))
                    now = time.monotonic()
                    self._silences[pod.name] = max(self._silences[pod.name], now - last)
                    last = now
        self._silences.pop(pod.name, None)
        for sender, numbers in got.items():
            if sorted(set(numbers)) != numbers:
                self.violations.append(f"reader at {pod.name}: {sender}: twice, or out of order")
            missing = numbers[-1] - numbers[0] + 1 - len(numbers)
            if missing > self.doubts:
                self.violations.append(f"reader at {pod.name}: {sender}: {missing} are missing")

    @asynccontextmanager
    async def step(self, what: str) -> AsyncIterator[dict[str, Any]]:
        """Measure one step, and print its line."""
        await trio.sleep(SETTLED_S)
        self._silences.update(dict.fromkeys(self._silences, 0.0))
        figures: dict[str, Any] = {"step": what}
        begun = time.monotonic()
        yield figures
        await trio.sleep(SETTLED_S)
        figures["step_s"] = round(time.monotonic() - begun, 2)
        figures["silence_s"] = round(max(self._silences.values()), 3)
        self.steps.append(figures)
        say(json.dumps(figures))

    async def begin(self, pod: Pod, tasks: trio.Nursery) -> None:
        """Start a pod, and its reader."""
        await pod.start()
        self.pods.append(pod)
        self.pods.sort(key=self._all.index)
        await tasks.start(self.read, pod)

    async def end(self, pod: Pod, figures: dict[str, Any]) -> None:
        """End a pod in order."""
        self.pods.remove(pod)
        figures["stop_s"] = round(await pod.stop(), 2)

    # ---- what Kubernetes and its operator do ----

    async def play(self, count: int) -> None:
        """Do all of it, beginning with so many pods."""
        self.configure(count)
        async with trio.open_nursery() as tasks:
            async with trio.open_nursery() as starts:
                for pod in self._all[:count]:
                    starts.start_soon(self.begin, pod, tasks)
            for pod in self._all[:count]:
                tasks.start_soon(self.send, pod)
            await self.roll(tasks)
            await self.lose_node(self.pods[1], tasks)
            await self.grow(tasks)
            await self.roll(tasks)
            await self.shrink(count)
            self._over = True
            await trio.sleep(SETTLED_S)
            for pod in self.pods[:]:
                await pod.stop()
            tasks.cancel_scope.deadline = trio.current_time() + SETTLED_S

    async def roll(self, tasks: trio.Nursery) -> None:
        """Restart all pods in turn, the last one first."""
        for pod in self.pods[::-1]:
            async with self.step(f"restart {pod.name} of {len(self.pods)}") as figures:
                await self.end(pod, figures)
                await self.begin(pod, tasks)

    async def lose_node(self, pod: Pod, tasks: trio.Nursery) -> None:
        """Lose a node; another one has its pod and its claim later."""
        async with self.step(f"{pod.name} is lost with its node"):
            self.pods.remove(pod)
            pod.node.plug(0, up=False)
            pod.kill()
            await trio.sleep(AWAY_S)
        async with self.step(f"{pod.name} comes back"):
            pod.node.plug(0, up=True)
            await self.begin(pod, tasks)

    async def grow(self, tasks: trio.Nursery) -> None:
        """Add pods one after the other: to the cluster, to the configuration, to the set."""
        for pod in self._all[len(self.pods) :]:
            async with self.step(f"{pod.name} is added"):
                where = f"{pod.name}.groupcomm:4803"
                words = ("daemons", "add", pod.name, "--site", "local", "--address", where)
                run(*self.pods[0].command("groupcomm", *words))
                self.configure(len(self.pods) + 1)
                await self.begin(pod, tasks)

    async def shrink(self, count: int) -> None:
        """Remove pods from the last one on: from the set, the cluster, the configuration."""
        while len(self.pods) > count:
            pod = self.pods[-1]
            async with self.step(f"{pod.name} is removed") as figures:
                await self.end(pod, figures)
                run(*self.pods[0].command("groupcomm", "daemons", "remove", pod.name))
                self.configure(len(self.pods))


async def play(folder: Path, count: int, rate: float) -> Plant:
    """Run everything; return what was seen."""
    manifest = read_manifest()
    (folder / "secret").mkdir(mode=0o700)
    write_key_file(folder / "secret/plant.key")
    add_token(folder / "secret/http.tokens", "prometheus")
    with open_nodes(count + MORE, MTU, ()) as nodes:
        lines = [f"{node.address} groupcomm-{at}.groupcomm" for at, node in enumerate(nodes)]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        pods = [Pod(folder, number, node, manifest) for number, node in enumerate(nodes)]
        plant = Plant(pods, manifest, rate)
        try:
            await plant.play(count)
        except BaseException:
            for pod in pods:
                if pod.log.exists():
                    say(f"{pod.name} {pod.log.read_text()[-3000:]}")
            raise
        finally:
            for pod in pods:
                pod.kill()
    return plant


@campaign(option("pods", 3, "pods at first"), option("rate", 50.0, "of each sender"))
async def orchestrate(options: Namespace) -> Found:
    """Run it where namespaces can be made."""
    if reason := why_not():
        raise NotHere(reason)
    with TemporaryDirectory(prefix="pods-") as folder:
        plant = await play(Path(folder), options.pods, options.rate)
    sent = {"sent": sum(plant.sent.values()), "in_doubt": plant.doubts}
    return {**sent, "steps": plant.steps, "violations": plant.violations}
