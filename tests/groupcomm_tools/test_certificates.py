"""`groupcomm certs`: certificates are renewed while the old ones are valid, and listed."""

import json
from pathlib import Path

from cryptography import x509

from groupcomm_tools.certificates import issue, make_authority, renew, revoke_issued, revoke_others
from tests.groupcomm_tools.shell import tell


def names_of(path: Path) -> x509.SubjectAlternativeName:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value


def test_a_renewed_certificate_has_the_names_of_the_old_one(tmp_path: Path) -> None:
    make_authority(tmp_path, 10)
    issue(tmp_path, "press", ["10.0.0.1", "fe80::1", "press.plant"], 1)
    issue(tmp_path, "ann", [], 1)
    for name in ("press", "ann"):
        path = tmp_path / f"{name}.pem"
        old = x509.load_pem_x509_certificate(path.read_bytes())
        names, key = names_of(path), (tmp_path / f"{name}.key").read_bytes()
        status, _, told = tell("certs", "renew", str(tmp_path), name, "--days", "5")
        assert (status, "SIGHUP" in told) == (0, True), told
        new = x509.load_pem_x509_certificate(path.read_bytes())
        assert sorted(map(repr, names_of(path))) == sorted(map(repr, names))
        assert new.serial_number != old.serial_number
        assert new.not_valid_after_utc > old.not_valid_after_utc
        assert (tmp_path / f"{name}.key").read_bytes() != key
        kept = tmp_path / f"{name}-{old.serial_number:x}"
        assert x509.load_pem_x509_certificate(kept.with_suffix(".pem").read_bytes()) == old
        assert kept.with_suffix(".key").read_bytes() == key
        assert (tmp_path / f"{name}.key").stat().st_mode & 0o777 == 0o600


def test_what_was_not_issued_is_not_renewed(tmp_path: Path) -> None:
    status, _, told = tell("certs", "renew", str(tmp_path), "ann")
    assert (status, "issue one with: groupcomm certs issue" in told) == (2, True), told
    make_authority(tmp_path, 10)
    issue(tmp_path, "ann", [], 1)
    revoke_issued(tmp_path, "ann")
    status, _, told = tell("certs", "renew", str(tmp_path), "ann")
    assert (status, "ann.pem is missing" in told) == (2, True), told
    issue(tmp_path, "ann", [], 1)
    (tmp_path / "ca.key").unlink()
    status, _, told = tell("certs", "renew", str(tmp_path), "ann")
    assert (status, "ca.key is missing" in told) == (2, True), told
    assert (tmp_path / "ann.pem").exists(), "nothing was renamed"
    status, _, told = tell("certs", "issue", str(tmp_path), "ann")
    assert status == 2


def test_the_list_says_what_each_certificate_is_for_and_when_it_ends(tmp_path: Path) -> None:
    make_authority(tmp_path, 100)
    issue(tmp_path, "press", ["10.0.0.1", "press.plant"], 5)
    for name in ("ann", "bob", "eve"):
        issue(tmp_path, name, [], 50)
    revoke_issued(tmp_path, "ann")
    renew(tmp_path, "eve", 60)
    revoke_others(tmp_path, principals=["cert:eve"])
    status, output, _ = tell("certs", "list", str(tmp_path))
    assert status == 0
    press, *others, authority = output.splitlines()
    assert press.endswith("ends in 4 days  RENEW  press.plant 10.0.0.1")
    assert authority.endswith("ends in 99 days  authority")
    found = json.loads(tell("certs", "list", str(tmp_path), "--json")[1])["certificates"]
    states = {each["name"].partition("-")[0]: each["is_revoked"] for each in found}
    assert states == {"press": False, "ann": True, "bob": False, "eve": True, "ca": False}
    assert sum("revoked" in line for line in others) == 3, "ann, and eve before and after"
    (tmp_path / "x.pem").write_text("nothing")
    assert "x.pem holds no certificate" in tell("certs", "list", str(tmp_path))[2]
