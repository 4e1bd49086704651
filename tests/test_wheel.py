"""What users install: the wheel holds every package, its types, its commands and its license."""

import configparser
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.build import build_wheel

ROOT = Path(__file__).parent.parent
PACKAGES = {
    path.parent.name: path.parent
    for pattern in ("*/__init__.py", "daemon/*/__init__.py", "clients/*/__init__.py")
    for path in ROOT.glob(pattern)
    if path.parent.name not in {"tests", "examples"}
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)  # the build backend works in the current folder
        name = build_wheel(str(folder))
    with zipfile.ZipFile(folder / name) as wheel:
        yield wheel


def test_top_level_names_are_exactly_our_packages(wheel: zipfile.ZipFile) -> None:
    names = {name.split("/")[0] for name in wheel.namelist()}
    packages = {name for name in names if not name.endswith(".dist-info")}
    assert packages == set(PACKAGES) >= {"groupcomm", "groupcommd", "groupcomm_client"}


def test_every_module_is_in_it_and_what_pages_are_made_of(wheel: zipfile.ZipFile) -> None:
    expected = {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in PACKAGES.items()
        for kind in ("py", "js", "css", "html")
        for path in folder.rglob(f"*.{kind}")
    }
    assert "groupcomm_tools/view/page.html" in expected
    assert expected <= set(wheel.namelist())


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_types_are_published(wheel: zipfile.ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in wheel.namelist()


def test_the_module_of_spread_is_a_distribution_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gets it who has Spread's own one."""
    monkeypatch.chdir(ROOT / "clients" / "spread_module")
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as built:
        names = {name.split("/")[0] for name in built.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"spread.py"}


def dist_info(wheel: zipfile.ZipFile, ending: str) -> str:
    (name,) = [name for name in wheel.namelist() if name.endswith(f".dist-info/{ending}")]
    return wheel.read(name).decode()


def test_commands_exist(wheel: zipfile.ZipFile) -> None:
    entry_points = configparser.ConfigParser()
    entry_points.read_string(dist_info(wheel, "entry_points.txt"))
    scripts = dict(entry_points["console_scripts"])
    assert scripts["groupcomm"] == "groupcomm_tools.cli:main"
    for target in scripts.values():
        module, function = target.split(":")
        path = f"{module.replace('.', '/')}.py"
        assert f"def {function}(" in wheel.read(path).decode()


def test_the_whole_license_is_in_it(wheel: zipfile.ZipFile) -> None:
    text = dist_info(wheel, "licenses/LICENSE")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
