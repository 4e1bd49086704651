"""A small certificate authority in a folder: ``ca.pem``, ``ca.key``, and its certificates.

It is for a first try, and for plants that have no other authority. Keys are of curve P-256, without
a password, and readable by their owner only.
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from groupcomm.errors import ConfigError
from groupcomm.host.acting import as_owner_of
from groupcomm.host.private_files import make_private_folder, open_private, write_new
from groupcomm.host.tls import PROGRAM, PROGRAM_NAME
from groupcommd.programs.revocation_file import (
    Revocations,
    check_principal,
    read_revocations,
    revoke,
)

REVOKED: Final = "revoked.toml"

BACKDATED: Final = timedelta(minutes=5)
"""Validity begins this much earlier: clocks of other hosts may be late."""


def make_authority(folder: Path, days: float) -> tuple[Path, Path]:
    """Make a folder with a new authority; return the paths of its certificate and its key.

    It has a file of revocations, too, with none in it.

    Raises:
        ConfigError: there is an authority already.
        OSError: it cannot be written.
    """
    make_private_folder(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named("groupcomm CA")
    built = (
        _dated(subject, subject, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    written = _write(folder, "ca", built, key)
    revoke_others(folder)  # daemons can name the file from their first start
    return written


def issue(folder: Path, name: str, hosts: Sequence[str], days: float) -> tuple[Path, Path]:
    """Issue a certificate; return the paths of it and of its key.

    The certificate of a daemon serves programs, and admits nobody. That of a program admits it, as
    ``cert:NAME``, and serves nobody: it has no host name.

    Args:
        folder: folder of the authority.
        name: name of the daemon or program.
        hosts: the names and addresses of a daemon's host; empty for a program.
        days: the days for which it is valid.

    Raises:
        ConfigError: there is no authority, or there is a certificate of this name.
        OSError: it cannot be written.
    """
    if not PROGRAM_NAME.fullmatch(name) or name == "ca":
        raise ConfigError(
            f"certs: {name!r} is not a valid name: use 1 to 64 letters, digits, dots and dashes,"
            " but not ca"
        )
    signer, signing_key = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    program = x509.UniformResourceIdentifier(f"{PROGRAM}{name}")
    try:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts] or [program])
        subject = _named(name)
    except ValueError as error:
        raise ConfigError(f"certs: a name is invalid: {error}") from None
    built = (
        _dated(subject, signer.subject, key, days)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
        .sign(signing_key, hashes.SHA256())
    )
    return _write(folder, name, built, key)


def renew(folder: Path, name: str, days: float) -> tuple[Path, Path]:
    """Issue a certificate with a new key for whom one was issued; return the paths of both.

    It is for the same hosts, or the same program. The old files stay, with the serial number in
    their names; the old certificate stays valid until it ends.

    Raises:
        ConfigError: there is no authority, or no certificate of this name.
        OSError: a file cannot be read or written.
    """
    old = _issued(folder, name, "issue one with: groupcomm certs issue")
    hosts = _hosts(old)
    _authority(folder)  # raises before anything is renamed
    _keep(folder, name, old.serial_number)
    return issue(folder, name, hosts, days)


def revoke_issued(folder: Path, name: str) -> tuple[Path, int]:
    """Revoke the certificate of a name, so that another can be issued for it.

    Its files stay, with its serial number in their names.

    Returns:
        The path of the file of revocations, for daemons, and the serial number.

    Raises:
        ConfigError: there is no such certificate, or the file of revocations is invalid.
        OSError: a file cannot be read or written.
    """
    certificate = _issued(
        folder,
        name,
        "revoke it with --serial, which `groupcomm status --json` of a daemon tells, or all"
        " certificates of its principal with --principal",
    )
    serial = certificate.serial_number
    written = revoke_others(folder, serials=[serial], note=name)
    _keep(folder, name, serial)
    return written, serial


@attrs.frozen
class Issued:
    """A certificate of a folder.

    Attributes:
        name: its name there.
        hosts: the names and addresses of a daemon's host; () for a program or an authority.
        end: when it ends, UTC.
        serial: its serial number.
        is_revoked: whether the file of revocations names it.
    """

    name: str
    hosts: tuple[str, ...]
    end: datetime
    serial: int
    is_revoked: bool


def list_issued(folder: Path) -> list[Issued]:
    """Return the certificates of a folder, those that end first at the beginning.

    Raises:
        ConfigError: a file holds no certificate, or the file of revocations is invalid.
        OSError: a file cannot be read.
    """
    revoked = read_revocations(folder / REVOKED) if (folder / REVOKED).exists() else Revocations()
    found = []
    for path in folder.glob("*.pem"):
        try:
            read = x509.load_pem_x509_certificate(path.read_bytes())
        except ValueError:
            raise ConfigError(f"certs: {path} holds no certificate") from None
        hosts, serial = tuple(_hosts(read)), read.serial_number
        common_name = read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
        owner = "cert:" + str(common_name)
        is_revoked = serial in revoked.serials or (not hosts and owner in revoked.principals)
        found.append(Issued(path.stem, hosts, read.not_valid_after_utc, serial, is_revoked))
    return sorted(found, key=lambda each: each.end)


def _hosts(certificate: x509.Certificate) -> list[str]:
    """Return the names and addresses of a daemon's host."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    hosts = names.get_values_for_type(x509.DNSName)
    return [*hosts, *map(str, names.get_values_for_type(x509.IPAddress))]


def _issued(folder: Path, name: str, remedy: str) -> x509.Certificate:
    """Return the certificate that was issued for a name."""
    path = folder / f"{name}.pem"
    if not PROGRAM_NAME.fullmatch(name) or name == "ca":
        raise ConfigError(f"certs: {name!r} is not the name of a certificate that was issued")
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except FileNotFoundError:
        raise ConfigError(f"certs: {path} is missing; {remedy}") from None
    except ValueError:
        raise ConfigError(f"certs: {path} holds no certificate") from None


def _keep(folder: Path, name: str, serial: int) -> None:
    """Rename the files of a certificate, so that another can have its name."""
    for kind in ("pem", "key"):
        old = folder / f"{name}.{kind}"
        if old.exists():
            old.rename(folder / f"{name}-{serial:x}.{kind}")


def revoke_others(
    folder: Path, *, serials: Sequence[int] = (), principals: Sequence[str] = (), note: str = ""
) -> Path:
    """Revoke certificates that need not be in the folder; return the file of revocations.

    Raises:
        ConfigError: a principal does not belong to a certificate, or the file is invalid.
        OSError: it cannot be read or written.
    """
    when = f"{note}, " if note else ""
    when += f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    try:
        found = Revocations(
            dict.fromkeys(serials, when), {check_principal(each): when for each in principals}
        )
    except ValueError as error:
        raise ConfigError(
            f"certs: {str(error)!r} is not a principal of a certificate, such as cert:ann"
        ) from None
    path = folder / REVOKED
    with as_owner_of(path):
        revoke(path, found)
    return path


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
        with open_private(folder / "ca.key", "certs") as file:
            key = serialization.load_pem_private_key(file.read(), password=None)
    except FileNotFoundError as error:
        raise ConfigError(
            f"certs: {error.filename} is missing; make an authority first: groupcomm certs init"
            f" {folder}"
        ) from None
    except (ValueError, TypeError):
        raise ConfigError(f"certs: {folder}: ca.pem and ca.key are not an authority's") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"certs: {folder}/ca.key was not made by groupcomm certs init")
    return certificate, key


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _dated(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _write(
    folder: Path, name: str, built: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:
    certificate, private = folder / f"{name}.pem", folder / f"{name}.key"
    if certificate.exists():
        raise ConfigError(
            f"{certificate} exists and was not changed: choose another name, or: groupcomm certs"
            f" renew {folder} {name}"
        )
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    try:
        write_new(private, text.decode())
    except FileExistsError:
        raise ConfigError(f"{private} exists and was not changed: choose another name") from None
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    return certificate, private
