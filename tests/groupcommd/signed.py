"""Certificates that an authority of `groupcomm certs` signs, with whatever a test wants in them."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from groupcomm_tools.certificates import (
    _authority,
    _dated,
    _named,
    _usage,
    issue,
    make_authority,
)
from groupcommd.programs.revocation_file import Revocations, revoke

PROGRAM = ExtendedKeyUsageOID.CLIENT_AUTH


def sign(
    folder: Path,
    names: Sequence[x509.GeneralName],
    usages: Sequence[x509.ObjectIdentifier] = (PROGRAM,),
    *,
    file: str = "other",
    lasts: timedelta = timedelta(days=1),
) -> tuple[Path, Path]:
    """Sign a certificate; return the paths of it and of its key."""
    signer, signing_key = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _dated(_named("other"), signer.subject, key, lasts / timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    made = builder.sign(signing_key, hashes.SHA256())
    certificate, private = folder / f"{file}.pem", folder / f"{file}.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    private.chmod(0o600)
    return certificate, private


def make_pki(folder: Path, *programs: str) -> Path:
    """Make an authority, certificates of a daemon, press, and of programs; return the folder."""
    make_authority(folder, 1.0)
    issue(folder, "press", ["127.0.0.1"], 1.0)
    for name in programs:
        issue(folder, name, [], 1.0)
    revoke(folder / "revoked.toml", Revocations())
    return folder
