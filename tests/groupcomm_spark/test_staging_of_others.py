"""Another user prepares the folder in which the sink stages batches: none of it is published."""

import os
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from groupcomm.errors import ConfigError
from groupcomm_log.disk import Disk
from groupcomm_spark.sink.options import STAGED
from groupcomm_spark.sink.staging import Manifest, Part, Published, Staging
from tests.groupcomm_log.make import QuickDisk
from tests.groupcommd.nobody import NOBODY, as_nobody, can_be_nobody, open_folder

QUERY = "1f0c0f5e"


def refuse(staging: Staging, why: str) -> None:
    """Executor and driver take nothing from there, and put nothing there."""
    part = Part("x.parquet", 0, 1, {"alarms": 1})
    for act in (
        staging.published,
        lambda: staging.decide(0, [part]),
        lambda: staging.write(0, 0, iter([object()])),
    ):
        with pytest.raises(ConfigError, match=why):
            act()


def test_a_manifest_that_another_user_has_laid_there_is_not_believed() -> None:
    """All may write to the folder above, as to /tmp; the first who comes makes that of a query."""
    if not can_be_nobody():
        return
    with open_folder() as shared:
        shared.chmod(0o1777)
        check_what_nobody_has_laid_there(shared)


def check_what_nobody_has_laid_there(shared: Path) -> None:
    forged = Manifest(QUERY, 0, (Part("theirs.parquet", 0, 1, {"alarms": 1}),), {})
    lay = (
        "folder = pathlib.Path(sys.argv[1]); folder.mkdir(mode=0o777); folder.chmod(0o777)\n"
        "(folder / '000000000000.json').write_text(sys.argv[2])"
    )
    as_nobody(lay, shared / QUERY, msgspec.json.encode(forged).decode())
    staging = Staging(shared, QUERY, QuickDisk())
    assert staging.is_decided(0), "it is read as soon as it is believed"
    refuse(staging, f"it belongs to user {NOBODY}, so others could have the driver publish")


def test_executors_of_another_user_say_that_they_cannot_write() -> None:
    """The driver's user has made the folder, or would have to."""
    if not can_be_nobody():
        return
    rows = pa.RecordBatch.from_pylist([{"groups": ["g"], "type": 0, "data": b"x"}], STAGED)
    with open_folder() as shared:
        (shared / "made" / QUERY).mkdir(parents=True)
        for folder in (shared, shared / "made"):
            os.seteuid(NOBODY)
            try:
                with pytest.raises(ConfigError, match=f"user {NOBODY} of .* may not write there"):
                    Staging(folder, QUERY, Disk()).write(0, 0, iter([rows]))
            finally:
                os.seteuid(0)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o720, 0o702])
def test_a_folder_of_a_query_to_which_others_may_write_is_refused(
    tmp_path: Path, mode: int
) -> None:
    (tmp_path / QUERY).mkdir()
    (tmp_path / QUERY).chmod(mode)
    refuse(Staging(tmp_path, QUERY, QuickDisk()), "others may write to it")


def test_a_folder_in_which_it_can_be_replaced_is_refused(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "s", QUERY, QuickDisk())
    (tmp_path / "s" / QUERY).mkdir(parents=True, mode=0o700)
    (tmp_path / "s").chmod(0o777)
    refuse(staging, "others may write to it")
    (tmp_path / "s").chmod(0o1777)
    assert staging.published() == Published()
    (tmp_path / "s" / QUERY).rmdir()
    (tmp_path / "s" / QUERY).symlink_to(tmp_path)
    refuse(staging, "it is not a folder")
