"""The installed package on two hosts: its service, the doctor, keys, certificates and tokens.

    python -m tests.verification.campaigns deployment

It builds the Debian package, and installs it on two hosts. Each of them is this system with a layer
over it (overlayfs), in a namespace of mounts, networks and processes that ends with this program:
nothing of this system changes. There is no systemd, so the unit's command is run as the unit's
user, with its folders and variables. Then everything is done as docs/operating.md and
docs/security.md say, with the commands that stand there: the first start, the doctor as root, as
the service's user and as other users, another key of the cluster, a renewed and a revoked
certificate, of programs and of HTTP, and tokens that are taken back, beside programs with
reconnect=True. It needs root, and dpkg-deb; the last line of the output is the result.
"""

import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

from groupcomm.errors import GroupCommError
from packages.deb import PYTHON, build
from tests.verification.campaigns.runner import Found, NotHere, campaign

PROJECT: Final = Path(__file__).parents[3]
UNIT: Final = PROJECT / "daemon/packages/groupcommd@.service"
CONFIG: Final = "/etc/groupcomm/cluster.toml"
KEY: Final = "/var/lib/groupcomm/plant.key"
PATIENCE_S: Final = 30.0
RETIRE_S: Final = 10.5
"""Daemons refuse to erase a key before they have sealed with another one for ten seconds."""

NAMES: Final = ("alfa", "bravo")
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

SET_UP: Final = """
set -e
mount -t tmpfs tmpfs "$1"
ip link set lo up
ip address add 10.0.0.1/24 dev lo
ip address add 10.0.0.2/24 dev lo
for name in alfa bravo; do
    at="$1/$name"
    mkdir -p "$at/upper" "$at/work" "$at/root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$at/upper,workdir=$at/work" "$at/root"
    mount -t proc proc "$at/root/proc"
    mount --bind /dev "$at/root/dev"
    mount -t tmpfs tmpfs "$at/root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$at/root/tmp"
done
shift
exec "$@"
"""

PROGRAM: Final = """
import sys
from pathlib import Path
from groupcomm_client import TlsOptions
from groupcomm_client.blocking import connect
from groupcomm.errors import GroupCommError

how = sys.argv[1]
certificate = {"certificate": Path("ann.pem"), "key": Path("ann.key")}
proof = {"token": Path("sensor.token")} if how == "token" else certificate
try:
    with connect("tls://10.0.0.1", tls=TlsOptions(ca="ca.pem", **proof), reconnect=True) as it:
        print("connected", flush=True)
        while True:
            print(type(it.receive()).__name__, flush=True)
except GroupCommError as error:
    print("ended:", error, flush=True)
"""


class DeploymentFailed(GroupCommError):
    """Something was not as it should be."""


def check(right: bool, what: str) -> None:
    """Raise DeploymentFailed unless something is right."""
    if not right:
        raise DeploymentFailed(what)


def until(what: str, ready: Callable[[], bool]) -> None:
    """Wait until something is so, for a bounded time."""
    end = time.monotonic() + PATIENCE_S
    while not ready():
        check(time.monotonic() < end, f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.1)


def commands(page: str, first: str) -> list[str]:
    """Return the commands of the block of a page that has a line which begins so."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (PROJECT / "docs" / page).read_text(), re.M | re.S)
    (found,) = [each for each in blocks if any(x.startswith(first) for x in each.splitlines())]
    return [line.partition("  #")[0].strip() for line in found.splitlines()]


def settings(page: str, first: str) -> str:
    """Return the block of TOML that has this line."""
    blocks = re.findall(r"^```toml\n(.*?)^```", (PROJECT / "docs" / page).read_text(), re.M | re.S)
    (found,) = [str(each) for each in blocks if first in each.splitlines()]
    return found


def setting(key: str) -> str:
    """Return a setting of the unit."""
    (line,) = [x for x in UNIT.read_text().splitlines() if x.startswith(f"{key}=")]
    return line.partition("=")[2]


@attrs.define
class Host:
    """A host: its files, and the daemon that it runs.

    Attributes:
        name: the name of its daemon.
        root: its files.
        daemon: the process of its daemon, while it runs.
    """

    name: str
    root: Path
    daemon: "subprocess.Popen[str] | None" = None

    def command(self, script: str, user: str = "root") -> list[str]:
        """Return the command line that runs a script of the shell here."""
        words = ["chroot", str(self.root), "env", "-i", f"PATH={PATH}", "LANG=C.UTF-8"]
        home = "/root" if user == "root" else f"/home/{user}"
        words += [f"HOME={home}", "runuser", "-u", user, "--", "sh", "-c"]
        return [*words, f"cd {home} 2>/dev/null; {script}"]

    def run(self, script: str, user: str = "root", status: int = 0) -> str:
        """Run a script of the shell; return what it prints."""
        if script.startswith("systemctl"):
            return self.systemctl(script.split()[1])
        done = subprocess.run(
            self.command(script, user), capture_output=True, text=True, check=False
        )
        told = done.stdout + done.stderr
        check(
            done.returncode == status and "Traceback" not in told,
            f"{self.name}: {user}: {script}: exit status {done.returncode}: {told}",
        )
        print(f"{self.name} {user}: {script}", flush=True)
        return told

    def systemctl(self, verb: str) -> str:
        """Do as systemd does for this verb, with the settings of the unit."""
        print(f"{self.name} root: systemctl {verb} groupcommd@{self.name}", flush=True)
        if verb == "reload":
            check(setting("ExecReload") == '/bin/sh -c "kill -HUP $MAINPID"', "ExecReload")
            assert self.daemon is not None
            self.daemon.send_signal(signal.SIGHUP)
            return ""
        user, group = setting("User"), setting("Group")
        run = f"/run/{setting('RuntimeDirectory')}"
        state = f"/var/lib/{setting('StateDirectory')}"
        self.run(f"install -d -o {user} -g {group} -m {setting('RuntimeDirectoryMode')} {run}")
        self.run(f"install -d -o {user} -g {group} -m {setting('StateDirectoryMode')} {state}")
        started = setting("ExecStart").replace("%i", self.name)
        script = (
            f"umask {setting('UMask')}; cd /; export HOME={state} STATE_DIRECTORY={state}"
            f" RUNTIME_DIRECTORY={run} {setting('Environment')}; exec setpriv --reuid {user}"
            f" --regid {group} --init-groups --no-new-privs --bounding-set=-all --inh-caps=-all"
            f" {started}"
        )
        words = ["chroot", str(self.root), "env", "-i", f"PATH={PATH}", "sh", "-c", script]
        with self.log.open("w") as log:
            self.daemon = subprocess.Popen(words, stderr=log, text=True)
        until(f"{self.name} has a view", lambda: self.daemon_says("INFO view"))
        return ""

    @property
    def log(self) -> Path:
        """The log of the daemon."""
        return self.root / "tmp/daemon.log"

    def daemon_says(self, text: str) -> bool:
        """Return whether a text is in the daemon's log."""
        log = self.log.read_text()
        check(self.daemon is not None and self.daemon.poll() is None, f"{self.name} ended: {log}")
        return text in log

    def stop(self) -> None:
        """Stop the daemon, as systemd does."""
        if self.daemon is not None:
            self.daemon.terminate()
            check(self.daemon.wait(PATIENCE_S) == 0, f"{self.name}: it did not leave in order")
            self.daemon = None

    def owner(self, path: str) -> str:
        """Return the owner and the mode of a file."""
        return self.run(f"stat -c '%U %a' {path}").strip()


def doctor(host: Host, user: str) -> dict[str, tuple[str, str, str]]:
    """Return grade, text and remedy of the doctor's findings; of several of one check the last."""
    command = f"groupcomm doctor --config {CONFIG} --name {host.name} --json"
    done = subprocess.run(host.command(command, user), capture_output=True, text=True, check=False)
    check(done.returncode in (0, 1) and not done.stderr, f"doctor as {user}: {done.stderr}")
    rows = json.loads(done.stdout)["findings"]
    grades = [each["grade"] for each in rows]
    print(f"{host.name} {user}: {command}: {', '.join(sorted(set(grades)))}", flush=True)
    return {each["check"]: (each["grade"], each["text"], each["remedy"]) for each in rows}


def healthy(host: Host, user: str) -> None:
    """Check that the doctor finds no problem, and advises nothing."""
    for subject, (grade, text, remedy) in doctor(host, user).items():
        # buffers and clocks are this machine's own
        right = grade == "ok" or subject in ("UDP buffers", "clock", "clocks")
        check(right, f"doctor as {user}: {subject}: {text}: {remedy}")


def install(host: Host, package: Path) -> None:
    """Install the package on a host that has never had it."""
    shutil.copy(package, host.root / "tmp")
    host.run(
        "dpkg --purge groupcomm >/dev/null 2>&1; deluser groupcomm >/dev/null 2>&1;"
        " rm -rf /var/lib/groupcomm /etc/groupcomm; for one in ann bob; do useradd -m $one; done"
    )
    host.run(f"dpkg -i /tmp/{package.name} >/dev/null")
    text = (host.root / CONFIG[1:]).read_text()
    text = text.replace('alfa = "127.0.0.1"', 'alfa = "10.0.0.1"').replace("# bravo", "bravo")
    (host.root / CONFIG[1:]).write_text(text)


def carry(source: Host, path: str, target: Host, copy: str) -> None:
    """Copy a file as scp does, which root runs."""
    shutil.copy(source.root / path[1:], target.root / copy[1:])


def first_start(alfa: Host, bravo: Host) -> None:
    """Start the daemons as the page says, and let everybody look."""
    for line in commands("operating.md", "groupcomm keygen /var"):
        alfa.run(line)
        if line.startswith("groupcomm keygen"):
            carry(alfa, KEY, bravo, KEY)
        elif not line.startswith("systemctl"):
            bravo.run(line)
    bravo.systemctl("enable")
    both = ", ".join(NAMES)
    for host in (alfa, bravo):
        until("both are in the view", lambda host=host: host.daemon_says(f": {both}"))  # type: ignore[misc]
        check(host.owner(KEY) == "groupcomm 600", "the service's user owns its key")
        host.run(f"groupcommd --check --config {CONFIG} --name {host.name} >/dev/null")
        for user in ("root", "groupcomm"):
            healthy(host, user)
    alfa.run("adduser --quiet ann groupcomm")
    alfa.run("groupcomm doctor", "ann")
    alfa.run("groupcomm keys status && groupcomm status", "ann")
    alfa.run(f"groupcomm keys add {KEY}", "ann", status=2)
    alfa.run("groupcomm keys promote 2", "ann", status=1)
    for user in ("ann", "bob"):
        found = doctor(alfa, user)
        check(found["user"][0] == "warning", f"{user} is no user of the daemon: {found}")
        check("as root" in found["configuration"][2], f"the remedy for {user}: {found}")
    told = alfa.run("groupcomm doctor", "bob", status=1)
    check("adduser bob groupcomm" in told, f"the remedy for bob: {told}")


def another_key(alfa: Host, bravo: Host) -> None:
    """Change the key of the cluster as the page says."""
    lines = commands("security.md", "groupcomm keys add plant.key")
    for line in [each.replace("plant.key", KEY) for each in lines]:
        if line.startswith("scp"):
            carry(alfa, KEY, bravo, "/tmp/copy.key")
        elif "--from" in line:
            bravo.run(line)
            bravo.run("rm /tmp/copy.key")
        else:
            if "retire" in line:
                time.sleep(RETIRE_S)
            alfa.run(line)
    for host in (alfa, bravo):
        until("the old key is erased", lambda host=host: "seals with 2; has 2 (" in keys(host))  # type: ignore[misc]
        check(host.owner(KEY) == "groupcomm 600", "the service's user owns its key")
        healthy(host, "root")
    for host in (alfa, bravo):
        host.stop()
    for host in (bravo, alfa):
        host.systemctl("start")
    until("both are there again", lambda: alfa.daemon_says(f": {', '.join(NAMES)}"))


def keys(host: Host) -> str:
    """Return the keys of a host's daemon."""
    return host.run("groupcomm keys status").partition("\n")[0]


def with_tls(alfa: Host) -> None:
    """Make certificates and tokens as the page says, and start the daemon with them."""
    alfa.run("; ".join(commands("operating.md", "groupcomm certs init pki")))
    config = alfa.root / CONFIG[1:]
    tables = settings("operating.md", "[clients.tls]")
    head, _, rest = config.read_text().partition("[clients]\n")
    rest = rest.replace('unix_for = "group"\n', "")
    config.write_text(f"{head}{rest}\n{tables}")
    alfa.stop()
    alfa.systemctl("start")
    for path in ("plant.tokens", "http.tokens", "pki/alfa.key", "pki/revoked.toml"):
        check(alfa.owner(f"/var/lib/groupcomm/{path}") == "groupcomm 600", f"the owner of {path}")
    alfa.run(f"groupcommd --check --config {CONFIG} --name alfa >/dev/null")
    for user in ("root", "groupcomm"):
        healthy(alfa, user)


def hand_out(alfa: Host) -> None:
    """Give the programs of ann their files."""
    alfa.run(
        "install -o ann -m 600 -t /home/ann pki/ca.pem pki/ann.pem pki/ann.key sensor.token"
        " prometheus.token"
    )


def answer(alfa: Host, proof: str) -> str:
    """Return the status of HTTP that ann gets, and 000 if she cannot connect."""
    where = "https://10.0.0.1:4805/status.json"
    script = f"curl -s -o /dev/null -w '%{{http_code}}' --cacert ca.pem {proof} {where} || true"
    return alfa.run(script, "ann").strip()


def serial(alfa: Host, port: int) -> str:
    """Return the certificate that a port shows."""
    pem = ssl.get_server_certificate(("10.0.0.1", port))
    check(alfa.daemon is not None, "it runs")
    return pem


CERTIFICATE: Final = "--cert ann.pem --key ann.key"
TOKEN: Final = '-H "Authorization: Bearer $(cat prometheus.token)"'


class Program:
    """A program of ann with reconnect=True, or a stream of events; it prints what it gets."""

    def __init__(self, alfa: Host, name: str, script: str) -> None:
        self._path = alfa.root / f"tmp/{name}.out"
        with self._path.open("w") as out:
            self.process = subprocess.Popen(
                alfa.command(f"exec {script}", "ann"), stdout=out, stderr=out
            )
        self.name = name

    def gets(self, text: str, times: int = 1) -> None:
        """Wait until it has printed a text this many times."""
        until(f"{self.name} gets {text}", lambda: self._path.read_text().count(text) >= times)
        print(f"{self.name}: {text}", flush=True)

    def ends(self) -> None:
        """Wait until it has ended."""
        until(f"{self.name} ends", lambda: self.process.poll() is not None)
        print(f"{self.name} has ended", flush=True)


def credentials(alfa: Host) -> None:
    """Renew and revoke certificates, and take tokens back, beside programs and streams."""
    hand_out(alfa)
    (alfa.root / "home/ann/program.py").write_text(PROGRAM)
    run = "/usr/lib/groupcomm/bin/python3 -I program.py"
    programs = {how: Program(alfa, how, f"{run} {how}") for how in ("token", "certificate")}
    stream = "curl -sN --cacert ca.pem {} https://10.0.0.1:4805/events"
    streams = {
        how: Program(alfa, f"stream by {how}", stream.format(proof))
        for how, proof in (("token", TOKEN), ("certificate", CERTIFICATE))
    }
    for each in programs.values():
        each.gets("connected")
    for each in streams.values():
        each.gets("data:")
    for proof, status in (("", "401"), (CERTIFICATE, "200"), (TOKEN, "200")):
        check(answer(alfa, proof) == status, f"HTTP with {proof or 'nothing'}")

    before = {port: serial(alfa, port) for port in (4804, 4805)}
    alfa.run("; ".join(commands("operating.md", "groupcomm certs renew pki alfa")[:2]))
    alfa.systemctl("reload")
    for port, old in before.items():
        until(f"port {port} shows the new one", lambda p=port, o=old: serial(alfa, p) != o)  # type: ignore[misc]
        print(f"alfa: port {port} shows the renewed certificate", flush=True)
    healthy(alfa, "root")

    # replaced first, then taken back: the programs go on
    alfa.run("umask 077; groupcomm tokens add /var/lib/groupcomm/plant.tokens two > sensor.token")
    hand_out(alfa)
    for line in commands("operating.md", "groupcomm tokens remove /var"):
        alfa.run(line)
    programs["token"].gets("Reconnected")
    alfa.run("cp pki/ann.pem old.pem; groupcomm certs renew pki ann")
    hand_out(alfa)
    alfa.run(
        "groupcomm certs revoke pki --serial"
        " $(openssl x509 -noout -serial -in old.pem | cut -d= -f2)"
    )
    for line in commands("operating.md", "groupcomm certs revoke pki ann")[1:]:
        alfa.run(line)
    programs["certificate"].gets("Reconnected")
    streams["certificate"].ends()
    check(answer(alfa, CERTIFICATE) == "200", "HTTP with the renewed certificate")

    # taken back for good
    for line in commands("operating.md", "groupcomm certs revoke pki ann"):
        alfa.run(line)
    alfa.run("groupcomm tokens remove /var/lib/groupcomm/plant.tokens two")
    alfa.run("groupcomm tokens remove /var/lib/groupcomm/http.tokens prometheus")
    alfa.systemctl("reload")
    programs["certificate"].gets("ended: the certificate of this program was revoked")
    programs["token"].gets("ended: the token of this program was revoked")
    streams["token"].ends()
    check(answer(alfa, CERTIFICATE) == "000", "HTTP with the revoked certificate, newly connected")
    check(answer(alfa, TOKEN) == "401", "HTTP with the removed token")
    for user in ("root", "groupcomm"):
        healthy(alfa, user)


def go(folder: Path, package: Path) -> None:
    """Do everything, in the namespace of the hosts."""
    alfa, bravo = (Host(name, folder / name / "root") for name in NAMES)
    try:
        for host in (alfa, bravo):
            install(host, package)
        first_start(alfa, bravo)
        another_key(alfa, bravo)
        with_tls(alfa)
        credentials(alfa)
        for host in (alfa, bravo):
            host.stop()
            host.run("dpkg --purge groupcomm >/dev/null; ! test -e /var/lib/groupcomm")
    finally:
        for host in (alfa, bravo):
            if host.daemon is not None:
                print(host.log.read_text(), file=sys.stderr)


def why_not() -> str:
    """Return why this cannot be done here; empty if it can."""
    if os.geteuid() != 0:
        return "only root can make hosts of mounts"
    tools = ("unshare", "dpkg", "dpkg-deb", "ip", "curl", "openssl", "runuser", "setpriv")
    missing = [each for each in tools if shutil.which(each) is None]
    if not Path(f"/usr/bin/python{PYTHON}").exists():
        missing.append(f"/usr/bin/python{PYTHON}")
    return f"{', '.join(missing)} missing" if missing else ""


@campaign()
def run(_: Namespace) -> Found:
    """Do everything in namespaces of its own."""
    if reason := why_not():
        raise NotHere(reason)
    with TemporaryDirectory(prefix="groupcomm-") as text:
        folder = Path(text)
        package, _wheel = build(folder)
        (folder / "hosts").mkdir()
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]
        words += ["--propagation", "private", "sh", "-c", SET_UP, "sh", str(folder / "hosts")]
        words += [sys.executable, "-m", __name__, str(folder / "hosts"), str(package)]
        status = subprocess.run(words, check=False, cwd=PROJECT, stdout=sys.stderr).returncode
    return {"violations": [f"inside, the status is {status}; see above"] * bool(status)}


if __name__ == "__main__":  # inside of the namespaces
    go(Path(sys.argv[1]), Path(sys.argv[2]))
