"""Who else can write a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ckwatch.workspace import writers
from ckwatch.workspace.writers import Writers

ME = os.geteuid()
STRANGER = 54321
TEAM, PRIVATE, UNKNOWN = 6001, 6002, 6003
others = writers._others


@pytest.fixture(autouse=True)
def groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """TEAM has another member, PRIVATE has not, and of UNKNOWN nothing is known."""
    members = {TEAM: "ada, bob", PRIVATE: "", UNKNOWN: "members"}
    monkeypatch.setattr(writers, "_others", lambda group: members.get(group, ""))


def status(mode: int, user: int = ME, group: int = PRIVATE) -> os.stat_result:
    return os.stat_result((stat.S_IFREG | mode, 1, 1, 1, user, group, 0, 0, 0, 0))


ROWS = [
    (status(0o644), None),
    (status(0o600, user=0), None),
    (status(0o644, user=STRANGER), f"it belongs to the user {STRANGER}"),
    (status(0o400, user=STRANGER), f"it belongs to the user {STRANGER}"),
    (status(0o664), None),
    (status(0o664, group=TEAM), f"other users can write it: ada, bob of the group {TEAM}"),
    (status(0o664, group=UNKNOWN), f"other users can write it: members of the group {UNKNOWN}"),
    (status(0o644, group=TEAM), None),
    (status(0o666), "every user can write it"),
    (status(0o602), "every user can write it"),
]


@pytest.mark.parametrize(("found", "refusal"), ROWS)
def test_a_file(tmp_path: Path, found: os.stat_result, refusal: str | None) -> None:
    file = str(tmp_path / "file")
    assert Writers.of([tmp_path]).refusal(file, found) == refusal
    assert Writers.of([tmp_path], anyone=True).refusal(file, found) is None


def test_those_who_can_write_the_trusted_folder_may_write_what_is_in_it(tmp_path: Path) -> None:
    trusted = Writers((str(tmp_path),), frozenset({ME, 0, STRANGER}), frozenset({TEAM}))
    file = str(tmp_path / "file")
    assert trusted.refusal(file, status(0o644, user=STRANGER)) is None
    assert trusted.refusal(file, status(0o664, group=TEAM)) is None
    assert trusted.refusal(file, status(0o644, user=STRANGER + 1)) is not None
    assert trusted.refusal(file, status(0o666, user=STRANGER)) is not None


def test_the_folder_counts_with_its_owner_and_group(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert Writers.of([tmp_path]).groups == frozenset()
    tmp_path.chmod(0o775)
    found = Writers.of([tmp_path, tmp_path / "nowhere"])
    assert found.groups == {tmp_path.stat().st_gid}
    assert {ME, 0, tmp_path.stat().st_uid} == found.users


@pytest.mark.parametrize(
    ("modes", "refused"),
    [
        ({}, None),
        ({"a": 0o777}, "a"),
        ({"a/b": 0o777}, "a/b"),
        ({"a/b": 0o1777}, None),
        ({".": 0o777}, "."),
        ({".": 0o1777}, None),
    ],
)
def test_who_can_write_a_folder_can_replace_what_is_in_it(
    tmp_path: Path, modes: dict[str, int], refused: str | None
) -> None:
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "root/a/b/file").touch()
    (tmp_path / "root/link").symlink_to("a/b/file")
    for name, mode in modes.items():
        (tmp_path / "root" / name).chmod(mode)
    tmp_path.chmod(0o777)  # above the folder that is trusted
    folder = None if refused is None else (tmp_path / "root" / refused).resolve()
    for name in ("a/b/file", "link"):
        found = Writers.of([tmp_path / "root"]).refusal(str(tmp_path / "root" / name))
        assert found == (None if folder is None else f"every user can write its folder {folder}")


def test_what_is_not_there_is_nobodys(tmp_path: Path) -> None:
    assert Writers.of([tmp_path]).refusal(str(tmp_path / "nowhere/file")) is None


def test_members_of_a_group() -> None:
    others.cache_clear()
    assert writers._user_name(ME) not in others(os.getegid()).split(", ")
    assert others(3_999_999_999) == "members"
