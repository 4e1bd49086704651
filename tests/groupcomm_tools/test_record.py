"""The recorder on real daemons: what was delivered is in the log, whatever happens to it."""

import json
import resource
from pathlib import Path
from random import Random

import pytest
import trio

from groupcomm.level import LEVELS, ServiceLevel
from groupcomm_client import connect
from groupcomm_log.check import check_log
from groupcomm_log.cluster_mark import claim_folder
from groupcomm_log.diff import compare
from groupcomm_log.errors import Damage, LogError
from groupcomm_log.reader import LogReader
from groupcomm_log.schema import PLACE
from groupcomm_log.writer import LogWriter
from groupcomm_tools.cli import main
from groupcomm_tools.local_cluster import LocalCluster
from tests.groupcomm_log.make import open_log
from tests.groupcomm_tools.recorders import (
    COUNT,
    PATIENCE_S,
    RecorderProcess,
    end_both,
    part_and_merge,
    read_rows,
    recorded_pair,
    send_all_levels,
    until_joined,
    until_recorded,
)
from tests.groupcomm_tools.shell import NO_PAUSES, tell


async def test_what_is_delivered_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with LocalCluster("a") as cluster, connect(str(cluster["a"].unix), user="ann") as ann:
        await ann.join("g")
        with RecorderProcess(cluster["a"].unix, log, "--count", "6") as recorder:
            await until_joined(ann)
            for level in LEVELS:
                await ann.multicast(["g", "other"], level.name.encode(), level=level, type=7)
            assert await recorder.end(ask=False) == (0, "")
        assert recorder.told[-1]["messages"] == 6
        with RecorderProcess(cluster["a"].unix, log) as again:
            await until_joined(ann)
            await ann.multicast("g", bytes(100_000), level=ServiceLevel.FIFO)
            ordered = await ann.multicast_ordered("g", b"once more")
            await again.until_row(13)
            assert (await again.end())[0] == 0
    found = read_rows(log)
    assert sorted(row["level"] for row in found[:6]) == sorted(level.name for level in LEVELS)
    for row in found[:6]:
        assert (row["groups"], row["type"]) == (["g", "other"], 7)
        assert row["data"].decode() == row["level"]
        assert row["sender"].startswith("#ann#a/")
        no_place = {row[name] is None for name in PLACE}
        assert no_place == {row["level"] == "UNRELIABLE"}
    assert found[6]["data"] == bytes(100_000)
    assert found[7]["data"] == b"once more"
    assert found[7]["number"] == found[6]["number"] + 1
    view, *place = ordered.position
    assert [found[7][name] for name in PLACE] == [str(view), *place]
    assert [row["cause"] for row in read_rows(log, "gap")] == ["begin", "restart"]
    (first,), (second,) = ({row["epoch"] for row in rows} for rows in (found[:6], found[6:]))
    assert 0 < first < second
    joined, _ = (view for view in read_rows(log, "view") if view["cause"] == "join")
    assert joined["members"][1:] == joined["changed"] == joined["vs_set"]
    assert joined["members"][0].startswith("#ann#a/")
    assert read_rows(log, "daemons")[0]["members"] == ["a"]
    assert check_log(log).is_whole


async def test_the_log_of_another_cluster_is_not_continued(tmp_path: Path) -> None:
    ours, other = tmp_path / "ours", tmp_path / "other"
    async with LocalCluster("a") as cluster, connect(str(cluster["a"].unix)) as ann:
        name = (await ann.ask("name"))["cluster"]
        await ann.join("g")
        with RecorderProcess(cluster["a"].unix, ours) as recorder:
            await until_joined(ann)
            assert (await recorder.end())[0] == 0
        with pytest.raises(LogError, match=f"is of cluster {name}, and"):
            claim_folder(ours, "another one")
        open_log(other).close()
        claim_folder(other, "another one")
        before = sorted(path.name for path in other.iterdir())
        with RecorderProcess(cluster["a"].unix, other) as recorder:
            status, told = await recorder.end(ask=False)
        assert status == 1
        assert f"{other} is of cluster another one, and the daemon is of cluster {name}" in told
        assert sorted(path.name for path in other.iterdir()) == before


async def record_through_a_change(cluster: LocalCluster, folder: Path) -> None:
    """Two recorders, both members in all of one view of daemons, and part of two others."""
    async with connect(str(cluster["a"].unix)) as one, connect(str(cluster["b"].unix)) as other:
        await one.join("g")
        await cluster["c"].leave()
        await cluster.settle("ab")
        with (
            RecorderProcess(cluster["a"].unix, folder / "a") as left,
            RecorderProcess(cluster["b"].unix, folder / "b") as right,
        ):
            for _ in range(2):
                await until_joined(one)
            await cluster["c"].start()
            await cluster.settle("abc")
            async with trio.open_nursery() as nursery:
                for sender in (one, other):
                    nursery.start_soon(send_all_levels, sender)
            await cluster["c"].leave()
            await cluster.settle("ab")
            await send_all_levels(one)
            await end_both(one, folder, left, right)


def fail(damage: Damage) -> None:
    raise AssertionError(damage)


@pytest.mark.long
async def test_two_recorders_agree_and_log_diff_tells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with LocalCluster("abc", NO_PAUSES) as cluster:
        await cluster.settle("abc")
        await record_through_a_change(cluster, tmp_path)
    logs = [str(tmp_path / name) for name in "ab"]
    assert main(["log", "diff", *logs, "--json"]) == 0, capsys.readouterr()
    told = json.loads(capsys.readouterr().out)
    assert told["messages"]["FIFO"] == told["messages"]["CAUSAL"] == 2 * COUNT
    assert told["messages"]["RELIABLE"] == 2 * COUNT
    assert told["messages"]["SAFE"] >= 2 * COUNT
    assert told["views"] >= 2
    assert main(["log", "diff", *logs]) == 0
    assert "0 differences" in capsys.readouterr().out
    forge(tmp_path / "b", tmp_path / "forged")
    assert main(["log", "diff", logs[0], str(tmp_path / "forged")]) == 1
    assert "another order" in capsys.readouterr().out


@pytest.mark.long
async def test_two_recorders_agree_though_they_were_apart(tmp_path: Path) -> None:
    async with recorded_pair(tmp_path) as pair:
        await part_and_merge(pair)
    found = compare(tmp_path / "a", tmp_path / "b", fail)
    assert found.differences == []
    assert found.views >= 2
    assert found.changes >= 2
    assert found.compared["AGREED"] >= 2 * COUNT


def forge(log: Path, forged: Path) -> None:
    """The same log with two SAFE messages the other way round."""
    writer = LogWriter(forged)
    for batch in LogReader(log).batches():
        safe = [at for at, level in enumerate(batch["level"].to_pylist()) if level == "SAFE"]
        order = [*range(batch.num_rows)]
        if len(safe) > 12:
            order[safe[10]], order[safe[11]] = order[safe[11]], order[safe[10]]
        writer.append(batch.take(order).drop_columns(["epoch", "row"]))
    writer.close()


@pytest.mark.parametrize("how", ["kill", pytest.param("leave", marks=pytest.mark.long)])
async def test_it_outlasts_its_daemon_and_marks_the_gap(tmp_path: Path, how: str) -> None:
    log = tmp_path / "log"
    async with LocalCluster("ab") as cluster:
        await cluster.settle("ab")
        with RecorderProcess(cluster["a"].unix, log) as recorder:
            await recorder.until_row(2)
            if how == "kill":
                cluster["a"].kill()
            else:
                await cluster["a"].leave()
            await cluster["a"].start()
            await recorder.until_row(5)
            async with connect(str(cluster["b"].unix)) as sender:
                await sender.multicast("g", b"behind")
                await until_recorded(log, b"behind")
                assert (await recorder.end())[0] == 0
    gaps = read_rows(log, "gap")
    assert [gap["cause"] for gap in gaps] == ["begin", "reconnect"]
    why = "connection to the daemon was lost" if how == "kill" else "is being stopped"
    assert why in json.loads(gaps[1]["data"])["why"]
    assert gaps[0]["sender"] != gaps[1]["sender"]


async def test_on_a_full_disk_it_goes_on_and_marks_what_it_could_not_keep(tmp_path: Path) -> None:
    """The senders notice nothing; what fits in memory is written when there is room again."""
    log = tmp_path / "log"
    async with LocalCluster("a") as cluster, connect(str(cluster["a"].unix)) as sender:
        await sender.join("g")
        options = ("--buffer-mb", "0.1", "--seal-mb", "0.02")
        with RecorderProcess(cluster["a"].unix, log, *options) as recorder:
            await until_joined(sender)
            await recorder.until_row(2)
            resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
            for number in range(300):
                await sender.multicast_ordered("g", b"%d" % number + bytes(1000))
            await recorder.until_reported("File too large")
            await recorder.until_reported("does not keep up")
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(recorder.pid, resource.RLIMIT_FSIZE, unlimited)
            await recorder.until_reported("rows are written again")
            await sender.multicast("g", b"behind")
            await until_recorded(log, b"behind")
            status, error = await recorder.end()
    assert status == 1
    missing = int(error.split()[1])
    assert f"{missing} messages are missing, as gaps in the log say" in error
    found = read_rows(log)
    assert len(found) == 301 - missing < 301
    assert found[-1]["data"] == b"behind"
    gaps = [gap for gap in read_rows(log, "gap") if gap["cause"] == "overrun"]
    assert sum(json.loads(gap["data"])["messages"] for gap in gaps) == missing
    assert check_log(log).is_whole


@pytest.mark.long
async def test_old_rows_go_when_that_is_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with LocalCluster("a") as cluster, connect(str(cluster["a"].unix)) as sender:
        options = ("--seal-mb", "0.01", "--keep-mb", "0.03", "--sync-ms", "1")
        with RecorderProcess(cluster["a"].unix, log, *options) as recorder:
            await recorder.until_row(2)
            rng = Random(1)  # incompressible bytes
            with trio.fail_after(PATIENCE_S):
                while LogReader(log).begin().row == 0:
                    for _ in range(10):
                        await sender.multicast_ordered("g", rng.randbytes(1000))
            assert (await recorder.end())[0] == 0
    assert check_log(log).is_whole
    assert sum(path.stat().st_size for path in log.glob("*.parquet")) <= 30_000


async def test_it_goes_on_though_nobody_reads_what_it_tells(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with LocalCluster("a") as cluster, connect(str(cluster["a"].unix)) as sender:
        with RecorderProcess(cluster["a"].unix, log, heard=False) as recorder:
            await sender.join("g")
            await until_joined(sender)
            await sender.multicast("g", b"unheard")
            await until_recorded(log, b"unheard")
            status, error = await recorder.end()
    assert status == 0
    assert error.splitlines()[0] == "the reader of standard output has ended; the work goes on"


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    status, _, error = tell("record", "g", "--store", str(tmp_path / "file"))
    assert status == 1
    assert f"{tmp_path / 'file'} cannot be written: [Errno 17] File exists" in error
    assert error.endswith("; make room, or name another folder\n")


def test_two_recorders_do_not_write_to_one_folder(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    status, _, error = tell("record", "g", "--store", str(tmp_path))
    assert status == 1
    assert "another recorder writes to it; end that one, or choose another folder" in error
    writer.close()


def test_without_pyarrow_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = str(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for command in (["record", "g", "--store", "d"], ["log", "cat", folder], ["replay", folder]):
        assert main(command) == 2
        assert "pyarrow>=" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--sync-ms", "--buffer-mb", "--seal-s", "--keep-mb"])
def test_limits_must_be_above_zero(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "g", "--store", "d", option, "0"]) == 2
    assert f"argument {option}: it is 0, and must be above 0" in capsys.readouterr().err
