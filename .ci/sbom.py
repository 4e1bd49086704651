"""Write the parts of a release, with the hashes of their files, as CycloneDX 1.5 in JSON.

    python .ci/sbom.py base tools > dist/sbom.cdx.json

The parts are the packages of these files of .ci/lock: what the Debian packages and the container
bring, and what a wheel is tested with.
"""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def bill(names: list[str]) -> dict[str, Any]:
    """Return the document for these files of the lock."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]
    text = "".join((HERE / "lock" / f"{name}.txt").read_text() for name in names)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": component(project["name"], project["version"])},
        "components": [
            component(entry[1], entry[2], re.findall(r"sha256:([0-9a-f]{64})", entry[3]))
            for entry in re.finditer(r"^([\w.-]+)==([\w.+]+)(.*(?:\n    .*)*)", text, re.MULTILINE)
        ],
    }


def component(name: str, version: str, hashes: list[str] | None = None) -> dict[str, Any]:
    """Return a package; each hash is that of one of its files, of which one is installed."""
    address = f"pkg:pypi/{name}@{version}"
    found = {"type": "library", "name": name, "version": version, "purl": address}
    found |= {"bom-ref": address}
    if not hashes:
        return found
    files = [{"type": "distribution", "url": address, "hashes": [digest(x)]} for x in hashes]
    return {**found, "externalReferences": files}


def digest(text: str) -> dict[str, str]:
    """Return a hash of SHA-256."""
    return {"alg": "SHA-256", "content": text}


if __name__ == "__main__":
    print(json.dumps(bill(sys.argv[1:]), indent=1))
