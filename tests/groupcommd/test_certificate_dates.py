"""Certificates that end: the log says so in time, and `groupcomm doctor` as well."""

import time
from pathlib import Path
from typing import Final

import pytest

from groupcomm_tools.certificates import issue, make_authority
from groupcomm_tools.doctor.host_checks import check_certificates
from groupcommd.config.config_file import read_config
from groupcommd.config.daemon_config import DaemonConfig
from groupcommd.operators.certificate_dates import AGAIN_S, LOOK_S, check_dates, report
from groupcommd.operators.findings import Grade

DAY_S: Final = 86_400.0


def configured(folder: Path) -> DaemonConfig:
    """The configuration of a daemon with certificates for programs, and for HTTP."""
    tls = f'certificate = "{folder}/press.pem", key = "{folder}/press.key", ca = "{folder}/ca.pem"'
    path = folder / "a.toml"
    path.write_text(
        f'name = "a"\nclients.tls = {{address = "127.0.0.1:0", {tls}}}\n'
        f'http = {{listen = "127.0.0.1:0", tls = {{{tls}}}}}\n'
    )
    return read_config(path, name=None, state_dir=folder)


def test_certificates_are_reported_before_and_after_they_end(tmp_path: Path) -> None:
    make_authority(tmp_path, 400.0)
    issue(tmp_path, "press", ["127.0.0.1"], 30.0)
    config = configured(tmp_path)
    now = time.time()
    cases = {0.0: Grade.OK, 20 * DAY_S: Grade.WARNING, 31 * DAY_S: Grade.PROBLEM}
    for later_s, grade in {**cases, -2 * DAY_S: Grade.PROBLEM}.items():
        found = {each.text.split()[0]: each for each in check_dates(config, now + later_s)}
        assert found["clients.tls.certificate"].grade is grade
        assert found["http.tls.certificate"].grade is grade
        assert found["clients.tls.ca"].grade is Grade.OK
    ended = {each.text.split()[0]: each for each in check_dates(config, now + 401 * DAY_S)}
    assert "has ended on" in ended["clients.tls.ca"].text


def test_an_authority_that_was_added_to_one_that_has_ended_counts(tmp_path: Path) -> None:
    make_authority(tmp_path, 1.0)
    make_authority(tmp_path / "new", 400.0)
    issue(tmp_path, "press", ["127.0.0.1"], 30.0)
    both = (tmp_path / "ca.pem").read_bytes() + (tmp_path / "new" / "ca.pem").read_bytes()
    (tmp_path / "ca.pem").write_bytes(both)
    found = {e.text.split()[0]: e for e in check_dates(configured(tmp_path), time.time() + DAY_S)}
    assert found["clients.tls.ca"].grade is Grade.OK


def test_the_doctor_says_so(tmp_path: Path) -> None:
    make_authority(tmp_path, 400.0)
    issue(tmp_path, "press", ["127.0.0.1"], 10.0)
    config = configured(tmp_path)
    worst = max((f.grade for f in check_certificates(config)), key=list(Grade).index)
    assert worst is Grade.WARNING
    (tmp_path / "press.pem").unlink()
    assert [f.grade for f in check_certificates(config)] == [Grade.PROBLEM]


def test_a_daemon_logs_it_once_a_day(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_authority(tmp_path, 400.0)
    issue(tmp_path, "press", ["127.0.0.1"], 10.0)
    found, logged_at = list(check_dates(configured(tmp_path), time.time())), dict[str, float]()
    for now in (0.0, LOOK_S, AGAIN_S - 1.0, AGAIN_S, AGAIN_S + LOOK_S):
        report(found, logged_at, now)
    said = [line for line in caplog.messages if "clients.tls.certificate" in line]
    assert len(said) == 2
    assert "groupcomm certs" in said[0]
