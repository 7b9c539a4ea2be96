"""A private authority and the certificates of a farm's members, for mutual TLS.

Every member (scheduler, worker, daemon) shows a certificate of the authority and accepts no other: dask asks for one on
both sides and checks no names (`distributed.security.Security`). Whoever has a member's key can therefore run programs
on all workers.
"""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_config_path

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.durable_files import replace_file
from ckwatch.system.installation import command_for_extra
from ckwatch.system.user_files import read_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate
    from distributed import Security

AUTHORITY, AUTHORITY_KEY = "authority.pem", "authority-key.pem"
MEMBER, MEMBER_KEY = "member.pem", "member-key.pem"
MEMBER_FILES = (AUTHORITY, MEMBER, MEMBER_KEY)
"""The files that a member needs."""

AUTHORITY_DAYS = 3650
MEMBER_DAYS = 365
RENEWED_DAYS = 60
"""A member's certificate that ends so soon is made anew."""

MAKE_HINT = "`ckwatch farm certificates` makes them; on other machines, copy the folder that it made for them."


def default_certificates_folder() -> Path:
    """Return the folder of certificates, unless `[farm] certificates` names another."""
    return user_config_path("ckwatch", appauthor=False) / "farm"


@dataclass(frozen=True, slots=True)
class MadeCertificates:
    """The result of `make_certificates`: whether there is a new authority, and folders whose member is new."""

    folder: Path
    new_authority: bool
    members: tuple[Path, ...]


def make_certificates(folder: Path, names: tuple[str, ...] = ()) -> MadeCertificates:
    """Make the authority in `folder` if there is none, this machine's member, and a folder in it for each of `names`.

    An authority is never replaced, members that hold for long are kept. Raises CkwatchError for a name that is no
    file's name, a folder that cannot be written, and an authority that is damaged or over.
    """
    require_packages()
    for name in names:
        if not name or name.startswith(".") or "/" in name or "\0" in name or name in {AUTHORITY, MEMBER}:
            raise CkwatchError(f"`{name}` is not a name for a machine's folder", "Write the machine's host name.")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        has_one = (folder / AUTHORITY).exists() or (folder / AUTHORITY_KEY).exists()
        if not has_one:
            _make_authority(folder)
        authority, key = _read_authority(folder)
        places = (folder, *(folder / name for name in names))
        made = tuple(place for place in places if _make_member(place, authority, key))
    except OSError as error:
        raise CkwatchError(f"{error.filename or folder} cannot be used: {error.strerror}") from error
    return MadeCertificates(folder, not has_one, made)


def security_of(folder: Path | None) -> Security:
    """The certificates in `folder` as dask takes them. Raises CkwatchError for those that it would not take, or that
    others can read."""
    where = folder or default_certificates_folder()
    require_packages()
    problem = problem_of_certificates(where)
    if problem is not None:
        raise problem
    from distributed import Security

    member, key = str(where / MEMBER), str(where / MEMBER_KEY)
    return Security(
        require_encryption=True,
        tls_ca_file=str(where / AUTHORITY),
        **{f"tls_{role}_{what}": path for role in _ROLES for what, path in (("cert", member), ("key", key))},
    )


_ROLES = ("client", "scheduler", "worker")


def problem_of_certificates(folder: Path) -> CkwatchError | None:
    """Return the problem with a member's files, or None."""
    try:
        for name in MEMBER_FILES:
            (folder / name).stat()
        _require_private(folder, MEMBER_KEY)
        certificate = _certificate(folder / MEMBER)
        authority = _certificate(folder / AUTHORITY)
        if _key(folder / MEMBER_KEY, MAKE_HINT).public_key() != certificate.public_key():
            return CkwatchError(f"{folder / MEMBER_KEY} is not the key of {folder / MEMBER}", MAKE_HINT)
    except FileNotFoundError as error:
        return CkwatchError(f"there are no certificates for the farm: {error.filename} is not there", MAKE_HINT)
    except OSError as error:
        return CkwatchError(f"the farm's certificates cannot be read: {error.filename}: {error.strerror}", MAKE_HINT)
    except CkwatchError as error:
        return error
    now = datetime.now(UTC)
    for path, one in ((folder / MEMBER, certificate), (folder / AUTHORITY, authority)):
        if one.not_valid_after_utc <= now:
            return CkwatchError(f"the certificate {path} ended on {one.not_valid_after_utc:%Y-%m-%d}", MAKE_HINT)
        if one.not_valid_before_utc > now:
            return CkwatchError(
                f"the certificate {path} begins on {one.not_valid_before_utc:%Y-%m-%d %H:%M} UTC, which is yet to come",
                "Set the clock of this machine.",
            )
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return CkwatchError(f"{folder / MEMBER} is not of the authority {folder / AUTHORITY}", MAKE_HINT)
    return None


def _require_private(folder: Path, key: str) -> None:
    """Raises CkwatchError where others can read a key, or put files of theirs in its folder."""
    status = (folder / key).stat()
    if status.st_mode & 0o077 or status.st_uid not in (os.getuid(), 0):
        mode = stat.S_IMODE(status.st_mode)
        raise CkwatchError(
            f"the key {folder / key} can be read by others (mode {mode:04o})",
            f"`chmod 600 {folder / key}`; if others may have read it, make new certificates.",
        )
    if folder.stat().st_mode & 0o022:
        raise CkwatchError(
            f"others can put certificates of theirs into {folder}",
            f"`chmod 700 {folder}`; if others may have done so, make new certificates.",
        )


def require_packages() -> None:
    """Raises CkwatchError where the extra is not installed."""
    try:
        import cryptography  # noqa: F401
        import distributed  # noqa: F401
    except ImportError as error:
        raise CkwatchError(
            f"a farm needs more packages: {error.name} is not installed", command_for_extra("farm")
        ) from None


def _certificate(path: Path) -> Certificate:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(read_file(path))
    except ValueError as error:
        raise CkwatchError(f"{path} is not a certificate: {error}", MAKE_HINT) from error


def _key(path: Path, advice: str) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(read_file(path), password=None)
    except (ValueError, TypeError) as error:
        raise CkwatchError(f"{path} is not a key: {error}", advice) from error
    if not isinstance(key, EllipticCurvePrivateKey):
        raise CkwatchError(f"{path} is not a key of an elliptic curve", advice)
    return key


def _read_authority(folder: Path) -> tuple[Certificate, EllipticCurvePrivateKey]:
    advice = f"To start again, move {folder} away: all members then need new certificates."
    if not (folder / AUTHORITY).exists():
        raise CkwatchError(
            f"{folder} has {AUTHORITY_KEY} and no {AUTHORITY}", f"Copy that from a member's folder. {advice}"
        )
    if not (folder / AUTHORITY_KEY).exists():
        raise CkwatchError(
            f"{folder} has no {AUTHORITY_KEY}: it is a member's folder",
            "Make certificates on the machine with the authority.",
        )
    _require_private(folder, AUTHORITY_KEY)
    authority, key = _certificate(folder / AUTHORITY), _key(folder / AUTHORITY_KEY, advice)
    if key.public_key() != authority.public_key():
        raise CkwatchError(f"{folder / AUTHORITY_KEY} is not the key of {folder / AUTHORITY}", advice)
    if authority.not_valid_after_utc <= datetime.now(UTC):
        raise CkwatchError(f"the authority ended on {authority.not_valid_after_utc:%Y-%m-%d}", advice)
    return authority, key


def _make_authority(folder: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(folder / AUTHORITY_KEY, key)
    name = "ckwatch farm authority"
    _write_certificate(folder / AUTHORITY, _signed(name, key, None, key, AUTHORITY_DAYS, is_authority=True))


def _make_member(place: Path, authority: Certificate, authority_key: EllipticCurvePrivateKey) -> bool:
    """Make a member's files unless those that are there hold for long; whether they are new."""
    from cryptography.hazmat.primitives.asymmetric import ec

    place.mkdir(mode=0o700, exist_ok=True)
    _write_certificate(place / AUTHORITY, authority)
    if problem_of_certificates(place) is None:
        left = _certificate(place / MEMBER).not_valid_after_utc - datetime.now(UTC)
        if left > timedelta(days=RENEWED_DAYS):
            return False
    key = ec.generate_private_key(ec.SECP256R1())
    _write_key(place / MEMBER_KEY, key)
    days = min(MEMBER_DAYS, (authority.not_valid_after_utc - datetime.now(UTC)).days)
    _write_certificate(place / MEMBER, _signed("ckwatch farm member", key, authority, authority_key, days))
    return True


def _signed(
    name: str,
    key: EllipticCurvePrivateKey,
    issuer: Certificate | None,
    issuer_key: EllipticCurvePrivateKey,
    days: int,
    *,
    is_authority: bool = False,
) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    usage = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks of machines differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority, **usage
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _write_key(path: Path, key: EllipticCurvePrivateKey) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    replace_file(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), mode=0o600)


def _write_certificate(path: Path, certificate: Certificate) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    content = certificate.public_bytes(Encoding.PEM)
    if not path.exists() or read_file(path) != content:
        replace_file(path, content, mode=0o644)
