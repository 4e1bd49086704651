"""Verifying folders: their files first, then what is in those that are whole."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from groupcomm_log.errors import Damage
from groupcomm_spark.logs import read_logs
from groupcomm_spark.verify.files import check_files
from groupcomm_spark.verify.job import MOST, Stage, quiet, verify
from groupcomm_spark.verify.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def verify_folders(
    spark: "SparkSession", folders: Sequence[Path], *, most: int = MOST, stage: Stage = quiet
) -> Verdict:
    """Verify logs where they are written; see `verify`.

    Damaged files are named and left out: what they held is then known to be missing.

    Raises:
        LogError: one of the folders is no log.
        OSError: a file cannot be read.
    """
    with stage("files"):
        files = check_files(spark, folders)
    logs = read_logs(spark, folders, on_damage=_pass_over, without=files.damaged)
    verdict = verify(logs, lost=files.lost, most=most, stage=stage)
    for violation in files.violations:
        verdict.add(violation)
    verdict.violations.sort(key=lambda each: (each.name, each.logs, each.row or 0))
    return verdict


def _pass_over(_: Damage) -> None:
    """It was told already, by `check_files`."""
