"""A private authority, its members, and what is refused."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest
from cryptography import x509

from ckwatch.farm import certificates
from ckwatch.farm.certificates import (
    AUTHORITY,
    AUTHORITY_KEY,
    MEMBER,
    MEMBER_FILES,
    MEMBER_KEY,
    make_certificates,
    problem_of_certificates,
    security_of,
)
from ckwatch.model.errors import CkwatchError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "farm"
    make_certificates(found, ("gpu-box",))
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_an_authority_and_a_folder_for_each_machine_are_made(folder: Path) -> None:
    assert {*contents(folder)} == {AUTHORITY, AUTHORITY_KEY, MEMBER, MEMBER_KEY}
    assert {*contents(folder / "gpu-box")} == {*MEMBER_FILES}, "the authority's key stays"
    assert problem_of_certificates(folder) is None
    assert problem_of_certificates(folder / "gpu-box") is None


def test_keys_are_for_their_user_alone(folder: Path) -> None:
    for path in (
        folder,
        folder / "gpu-box",
        folder / AUTHORITY_KEY,
        folder / MEMBER_KEY,
        folder / "gpu-box" / MEMBER_KEY,
    ):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_what_holds_is_kept(folder: Path) -> None:
    before = contents(folder)
    made = make_certificates(folder, ("other",))
    assert (made.new_authority, made.members) == (False, (folder / "other",))
    assert contents(folder) == before


def test_what_ends_soon_is_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "RENEWED_DAYS", 366)
    before = contents(folder)
    assert make_certificates(folder).members == (folder,)
    after = contents(folder)
    assert after[AUTHORITY] == before[AUTHORITY]
    assert after[MEMBER] != before[MEMBER]
    assert after[MEMBER_KEY] != before[MEMBER_KEY]
    assert problem_of_certificates(folder) is None


def test_a_member_is_no_authority(folder: Path) -> None:
    member = x509.load_pem_x509_certificate((folder / MEMBER).read_bytes())
    assert not member.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert member.not_valid_after_utc - datetime.now(UTC) < timedelta(days=366)


def test_dask_gets_the_same_for_all_roles(folder: Path) -> None:
    security = security_of(folder)
    assert security.require_encryption
    for role in ("client", "scheduler", "worker"):
        found = security.get_tls_config_for_role(role)
        assert (found["ca_file"], found["cert"]) == (str(folder / AUTHORITY), str(folder / MEMBER))


def refusal(folder: Path) -> str:
    with pytest.raises(CkwatchError) as found:
        security_of(folder)
    assert found.value.hint
    return found.value.message


def test_a_key_that_others_can_read_is_refused(folder: Path) -> None:
    (folder / MEMBER_KEY).chmod(0o640)
    assert "can be read by others (mode 0640)" in refusal(folder)


def test_a_folder_that_others_can_write_to_is_refused(folder: Path) -> None:
    folder.chmod(0o770)
    assert "others can put certificates of theirs" in refusal(folder)
    folder.chmod(0o700)
    (folder / AUTHORITY_KEY).chmod(0o644)
    with pytest.raises(CkwatchError, match="can be read by others"):
        make_certificates(folder)


def test_a_key_without_its_certificate_is_made_anew(folder: Path) -> None:
    """As a crash between the two leaves them."""
    (folder / MEMBER_KEY).write_bytes((folder / "gpu-box" / MEMBER_KEY).read_bytes())
    assert "is not the key of" in refusal(folder)
    assert make_certificates(folder).members == (folder,)
    assert problem_of_certificates(folder) is None


def test_an_authority_without_its_certificate_is_not_replaced(folder: Path) -> None:
    (folder / AUTHORITY).unlink()
    before = contents(folder)
    with pytest.raises(CkwatchError, match=f"and no {AUTHORITY}") as found:
        make_certificates(folder)
    assert "Copy that from a member's folder" in str(found.value)
    assert contents(folder) == before


def test_a_clock_that_is_slow_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(days=2)

    with monkeypatch.context() as patch:
        patch.setattr(certificates, "datetime", Ahead)
        make_certificates(tmp_path / "farm")
    assert "is yet to come" in refusal(tmp_path / "farm")


@pytest.mark.parametrize("name", MEMBER_FILES)
def test_missing_files_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert f"{folder / name} is not there" in refusal(folder)


def test_a_member_of_another_authority_is_refused(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_certificates(other)
    for name in (MEMBER, MEMBER_KEY):
        (folder / name).write_bytes((other / name).read_bytes())
    assert "is not of the authority" in refusal(folder)


def test_an_old_certificate_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "MEMBER_DAYS", 0)
    make_certificates(tmp_path / "farm")
    assert "ended on" in refusal(tmp_path / "farm")


def test_damaged_files_are_no_traceback(folder: Path) -> None:
    (folder / MEMBER).write_text("nothing")
    assert "is not a certificate" in refusal(folder)
    (folder / AUTHORITY_KEY).write_text("nothing")
    with pytest.raises(CkwatchError, match="is not a key"):
        make_certificates(folder)


def test_an_authority_is_never_replaced(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    make_certificates(other)
    (folder / AUTHORITY_KEY).write_bytes((other / AUTHORITY_KEY).read_bytes())
    before = (folder / AUTHORITY).read_bytes()
    with pytest.raises(CkwatchError, match="is not the key of"):
        make_certificates(folder)
    assert (folder / AUTHORITY).read_bytes() == before


def test_a_members_folder_makes_no_members(folder: Path) -> None:
    with pytest.raises(CkwatchError, match="it is a member's folder"):
        make_certificates(folder / "gpu-box")


@pytest.mark.parametrize("name", ["", "..", ".hidden", "a/b", "a\0b"])
def test_a_machines_name_is_a_folders_name(folder: Path, name: str) -> None:
    with pytest.raises(CkwatchError, match="is not a name"):
        make_certificates(folder, (name,))
