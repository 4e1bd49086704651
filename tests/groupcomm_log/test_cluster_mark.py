"""The folder of a log knows the cluster whose groups are recorded in it."""

import errno
from pathlib import Path

import pytest

from groupcomm_log.cluster_mark import MARK, claim_folder
from groupcomm_log.errors import LogError
from groupcomm_log.reader import LogReader
from tests.groupcomm_log.make import FailingDisk, append, open_log


def test_a_folder_is_of_the_first_cluster_that_claims_it(tmp_path: Path) -> None:
    writer = open_log(tmp_path)
    append(writer, b"x")
    for _ in range(2):
        claim_folder(tmp_path, "plänt")
    with pytest.raises(LogError, match="is of cluster plänt, and the daemon is of cluster press"):
        claim_folder(tmp_path, "press")
    assert (tmp_path / MARK).stat().st_mode & 0o777 == 0o600
    writer.close()
    assert len(LogReader(tmp_path).segments()) == 1


@pytest.mark.parametrize("damaged", ["", "[]", "{}", "7", '{"cluster": 7}'])
def test_a_damaged_mark_is_told_and_stays(tmp_path: Path, damaged: str) -> None:
    (tmp_path / MARK).write_text(damaged)
    with pytest.raises(LogError, match=f"is damaged: see {MARK}, and the daemon is"):
        claim_folder(tmp_path, "press")
    assert (tmp_path / MARK).read_text() == damaged


@pytest.mark.parametrize("call", ["synced_file", "fill", "rename"])
def test_a_mark_that_cannot_be_written_is_none(tmp_path: Path, call: str) -> None:
    with pytest.raises(OSError, match="Read-only file system"):
        claim_folder(tmp_path, "press" * 30, FailingDisk(errno.EROFS, [call]))
    assert not (tmp_path / MARK).exists()
    claim_folder(tmp_path, "plant")
