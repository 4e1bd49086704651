"""Debian packages: commands, library, service, manual pages and completions; and the archive's.

    python -m packages.deb --output build

The package brings the releases of all libraries whose hashes .ci/lock has, in a virtual
environment of its own below /usr/lib/groupcomm: a stable Debian has older ones. It runs on the
system's Python, so it needs a system whose Python has the same version (3.11, say) as the one that
builds it. `import groupcomm_client` works for that Python, too. groupcomm-archive brings pyarrow,
ten times the size of the rest, for whoever runs an archive or a recorder.
"""

import argparse
import gzip
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from importlib.metadata import version
from pathlib import Path
from typing import Final

from hatchling.build import build_wheel

from packages.manuals import write_all

HERE: Final = Path(__file__).resolve().parent
PROJECT: Final = HERE.parent.parent
HOME: Final = Path("usr/lib/groupcomm")
COMMANDS: Final = {
    "groupcomm": "groupcomm_tools.cli",
    "groupcommd": "groupcommd.__main__",
}
PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
SITE: Final = HOME / f"lib/python{PYTHON}/site-packages"
NEXT_PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor + 1}"

HEAD: Final = """\
Version: {version}
Architecture: {architecture}
Maintainer: groupcomm maintainers <maintainers@groupcomm.invalid>
Section: net
Priority: optional
Installed-Size: {kilobytes}
"""

CONTROL: Final = """\
Package: groupcomm
Depends: python3 (>= {python}), python3 (<< {next_python}), adduser
Suggests: groupcomm-archive
Description: group communication with selectable service levels
 Daemons on many hosts agree on who is there and on what happened in which
 order. Programs join groups and multicast; each message is unreliable,
 reliable, FIFO, causal, agreed or safe. Views keep extended virtual synchrony
 through crashes, partitions and merges.
"""

ARCHIVE_CONTROL: Final = """\
Package: groupcomm-archive
Depends: groupcomm (= {version})
Description: group communication: archives, recorders and their logs
 What groupcomm history serve, record, log and replay need: pyarrow, which
 reads and writes logs of Parquet files.
"""

LIBRARY: Final = '''\
"""Finds this package among the libraries that groupcomm brings, as Debian's may be older."""

import sys
from importlib import import_module
from pathlib import Path

home, here = "/{site}", str(Path(__file__).parent)
if home not in sys.path:
    sys.path.insert(sys.path.index(here) if here in sys.path else 0, home)
del sys.modules[__name__]
import_module(__name__)
'''

COPYRIGHT: Final = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: groupcomm

Files: *
Copyright: the groupcomm maintainers
License: Apache-2.0
 See /usr/share/common-licenses/Apache-2.0. The libraries below {home} have
 licenses of their own, which stand in their folders *.dist-info.
"""

AFTER_INSTALL: Final = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    adduser --quiet --system --group --home /var/lib/groupcomm --no-create-home groupcomm
    install -d -o groupcomm -g groupcomm -m 700 /var/lib/groupcomm
    /{home}/bin/python3 -m compileall -q /{home}/lib || true
    if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
fi
"""

BEFORE_REMOVAL: Final = """\
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl stop 'groupcommd@*.service'
fi
find /{home} -name __pycache__ -type d -prune -exec rm -r {{}} +
rm -f /usr/lib/python3/dist-packages/__pycache__/*groupcomm*.pyc
"""

BEFORE_ARCHIVE_REMOVAL: Final = """\
#!/bin/sh
set -e
find /{site}/pyarrow* -name __pycache__ -prune -exec rm -r {{}} +
"""

AFTER_REMOVAL: Final = """\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
if [ "$1" = purge ]; then rm -rf /var/lib/groupcomm; fi
"""


def build(output: Path) -> tuple[Path, Path]:
    """Build both packages; return the paths of groupcomm and of groupcomm-archive.

    Raises:
        subprocess.CalledProcessError: a library cannot be installed, or dpkg-deb fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        root, archive = Path(folder) / "root", Path(folder) / "archive"
        root.mkdir(mode=0o755)
        add_environment(root, Path(folder))
        move_pyarrow(root, archive)
        add_commands(root)
        add_library(root)
        write_all(root / "usr/share")
        compress_manuals(root / "usr/share/man")
        copy(HERE / "groupcommd@.service", root / "lib/systemd/system/groupcommd@.service")
        unit = "groupcomm-archive@.service"
        copy(HERE / unit, archive / "lib/systemd/system" / unit)
        copy(HERE / "cluster.toml", root / "etc/groupcomm/cluster.toml")
        add_documents(root / "usr/share/doc/groupcomm")
        add_documents(archive / "usr/share/doc/groupcomm-archive")
        scripts = {"postinst": AFTER_INSTALL, "prerm": BEFORE_REMOVAL, "postrm": AFTER_REMOVAL}
        output.mkdir(parents=True, exist_ok=True)
        main = pack(root, output, CONTROL, scripts)
        return main, pack(archive, output, ARCHIVE_CONTROL, {"prerm": BEFORE_ARCHIVE_REMOVAL})


def add_environment(root: Path, folder: Path) -> None:
    """Install groupcomm and its libraries into a virtual environment of the system's Python."""
    home = root / HOME
    site = root / SITE
    site.mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to("/usr/bin/python3")
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    os.chdir(PROJECT)  # the build backend works in the current folder
    wheel = folder / build_wheel(str(folder))
    lock = PROJECT / ".ci/lock"
    install = [*installer(), "--no-deps", "--target", str(site)]
    files = [f"--requirement={lock / name}.txt" for name in ("base", "tools")]
    command(*install, "--require-hashes", *files)
    command(*install, str(wheel))
    shutil.rmtree(site / "bin", ignore_errors=True)
    for compiled in list(site.rglob("__pycache__")):
        shutil.rmtree(compiled)


def move_pyarrow(root: Path, archive: Path) -> None:
    """Move pyarrow to the files of the archive's package."""
    (archive / SITE).mkdir(parents=True)
    for path in list((root / SITE).glob("pyarrow*")):
        path.rename(archive / SITE / path.name)


def add_library(root: Path) -> None:
    """Have the system's Python find the packages of the wheel."""
    table = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    folder = root / "usr/lib/python3/dist-packages"
    folder.mkdir(parents=True)
    for package in table["targets"]["wheel"]["packages"]:
        (folder / f"{Path(package).name}.py").write_text(LIBRARY.format(site=SITE))


def installer() -> list[str]:
    """Return the beginning of a command that installs packages: pip's or uv's."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile"]
    beside = [str(Path(sys.executable).parent), os.environ["PATH"], str(PROJECT / ".boot/bin")]
    uv = shutil.which("uv", path=os.pathsep.join(beside))
    if uv is None:
        raise SystemExit("packages.deb: neither pip nor uv is there to install the libraries")
    return [uv, "pip", "install", "--quiet", "--python", sys.executable]


def add_commands(root: Path) -> None:
    """Add the commands; isolated mode keeps the user's folders and variables out."""
    for name, module in COMMANDS.items():
        script = root / HOME / "bin" / name
        script.write_text(
            f"#!/{HOME}/bin/python3 -I\n"
            f"import sys\nfrom {module} import main\n\nsys.argv[0] = {name!r}\nsys.exit(main())\n"
        )
        script.chmod(0o755)
        link = root / "usr/bin" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(f"/{HOME}/bin/{name}")


def add_documents(folder: Path) -> None:
    """Add the license and the changelog, as Debian wants them."""
    folder.mkdir(parents=True)
    (folder / "copyright").write_text(COPYRIGHT.format(home=f"/{HOME}"))
    changes = (PROJECT / "docs/changes.md").read_bytes()
    (folder / "changelog.gz").write_bytes(gzip.compress(changes, mtime=0))
    release = (
        f"groupcomm ({version('groupcomm')}-1) stable; urgency=medium\n\n"
        "  * See changelog.gz.\n\n"
        f" -- groupcomm maintainers <maintainers@groupcomm.invalid>  {formatdate(0)}\n"
    )
    (folder / "changelog.Debian.gz").write_bytes(gzip.compress(release.encode(), mtime=0))


def compress_manuals(folder: Path) -> None:
    """Compress all manual pages."""
    for page in [path for path in folder.rglob("*") if path.is_file()]:
        page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()


def pack(root: Path, output: Path, description: str, scripts: Mapping[str, str]) -> Path:
    """Add a package's description, its scripts, and the digests of its files; build it."""
    control = root / "DEBIAN"
    architecture = command("dpkg", "--print-architecture").strip()
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    kilobytes = sum(path.stat().st_size for path in files) // 1024 + 1
    control.mkdir(mode=0o755)
    (control / "control").write_text(
        (HEAD + description).format(
            version=f"{version('groupcomm')}-1",
            architecture=architecture,
            kilobytes=kilobytes,
            python=PYTHON,
            next_python=NEXT_PYTHON,
        )
    )
    if (root / "etc").exists():
        (control / "conffiles").write_text("/etc/groupcomm/cluster.toml\n")
    (control / "md5sums").write_text(
        "".join(
            f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}"
            f"  {path.relative_to(root)}\n"
            for path in files
            if path.parts[len(root.parts)] != "etc"
        )
    )
    for name, text in scripts.items():
        (control / name).write_text(text.format(home=HOME, site=SITE))
        (control / name).chmod(0o755)
    name = description.split()[1]
    path = output / f"{name}_{version('groupcomm')}-1_{architecture}.deb"
    # A higher level of compression saves a tenth of the size, and takes minutes.
    command("dpkg-deb", "-z2", "--build", "--root-owner-group", str(root), str(path))
    return path


def copy(source: Path, target: Path) -> None:
    """Copy a file that everybody may read."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o644)


def command(*words: str) -> str:
    """Run a command; return its output.

    Raises:
        subprocess.CalledProcessError: it has failed.
    """
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the package; return 0, or 1 if the system has no dpkg-deb."""
    parser = argparse.ArgumentParser(prog="packages.deb", description="Build the Debian packages.")
    parser.add_argument("--output", type=Path, metavar="DIR", default=PROJECT / "dist")
    output = parser.parse_args(arguments).output.resolve()
    if shutil.which("dpkg-deb") is None:
        print(
            f"packages.deb: {platform.system()} has no dpkg-deb here: Debian's package dpkg brings"
            " it",
            file=sys.stderr,
        )
        return 1
    print(*build(output), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
