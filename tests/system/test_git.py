"""The web addresses of repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anyio

from ckwatch.system.git import commit_address, web_address, web_address_of
from helpers.each_row import each_row


@each_row(
    ("remote", "expected"),
    [
        ("https://example.org/owner/kernels.git\n", "https://example.org/owner/kernels"),
        ("https://me:secret@example.org:8443/owner/kernels", "https://example.org:8443/owner/kernels"),
        ("http://example.org/k/", "http://example.org/k"),
        ("git@example.org:owner/kernels.git", "https://example.org/owner/kernels"),
        ("ssh://git@example.org:2222/owner/kernels.git", "https://example.org/owner/kernels"),
        ("/srv/git/kernels.git", ""),
        ("../kernels", ""),
        ("file:///srv/git/kernels.git", ""),
        ("javascript:alert(1)", ""),
        ("https://example.org/a b", ""),
        ("", ""),
    ],
)
def test_a_remote_has_an_address_without_a_secret(remote: str, expected: str) -> None:
    assert web_address(remote) == expected


def test_a_commit_has_the_page_of_its_host() -> None:
    assert commit_address("https://example.org/o/k", "ab12") == "https://example.org/o/k/commit/ab12"
    assert commit_address("https://bitbucket.org/o/k", "ab12") == "https://bitbucket.org/o/k/commits/ab12"


def test_the_remote_is_that_of_the_repository(tmp_path: Path) -> None:
    assert anyio.run(web_address_of, tmp_path / "gone") == ""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert anyio.run(web_address_of, tmp_path) == ""
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", "git@example.org:o/k.git"], check=True)
    assert anyio.run(web_address_of, tmp_path) == "https://example.org/o/k"
