"""Which packages are chosen, from which archive, and what apt's failures become."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ckwatch.compile.toolchain.debian import (
    AptPackage,
    AptRepository,
    AptSources,
    PackageStanza,
    PrivateApt,
    check_mirror,
    configured_repositories,
    debian_mirror,
    explain_failure,
    find_keyring,
    parse_stanzas,
    parse_uris,
    read_os_release,
    require_tools,
    select,
)
from ckwatch.model.errors import ToolchainError
from helpers.each_row import each_row

needs_apt = pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt on this system")

DEBIAN = {"ID": "debian", "VERSION_CODENAME": "bookworm"}
UBUNTU = {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_CODENAME": "noble", "PRETTY_NAME": "Ubuntu 24.04"}


def stanza(name: str, section: str, *depends: str) -> PackageStanza:
    return PackageStanza(name, "1", section, frozenset(depends))


CLOSURE = [
    stanza("hipcc", "devel", "clang-22", "python3", "libc6"),
    stanza("clang-22", "devel", "libllvm22", "libclang1-22", "gcc-16-base", "binutils"),
    stanza("clang-21", "devel"),
    stanza("lld-22", "devel"),
    stanza("llvm-22", "devel", "libpfm4", "libz3-4"),
    stanza("clang-tools-22", "devel", "python3"),
    stanza("libclang-common-22-dev", "libdevel"),
    stanza("libclang-rt-22-dev", "libdevel", "lib32gcc-s1"),
    stanza("rocm-device-libs-22", "libs"),
    stanza("libamdhip64-dev", "libdevel", "libamdhip64-7"),
    stanza("libcomposable-kernel-dev", "libdevel", "libunwanted1"),
    stanza("libhsa-runtime-dev", "libdevel"),
    stanza("libamd-comgr-dev", "libdevel"),
    stanza("libllvm22", "libs", "libz3-4", "libcycle1"),
    stanza("libcycle1", "libs", "libllvm22"),
    stanza("libz3-4", "non-free/libs".rpartition("/")[2]),
    stanza("libamdhip64-7", "libs"),
    stanza("libc6", "libs", "libgcc-s1"),
    stanza("libgcc-s1", "libs"),
    stanza("libunwanted1", "libs"),
    stanza("libomp5", "libs"),
    stanza("libclang1-22", "libs"),
    stanza("libpfm4", "libs"),
    stanza("gcc-16-base", "libs"),
    stanza("lib32gcc-s1", "libs"),
    stanza("python3", "python"),
    stanza("binutils", "devel"),
]


def test_only_what_a_compile_needs_is_chosen() -> None:
    chosen = {name for name, _ in select(CLOSURE)}
    assert chosen == {
        *("hipcc", "clang-22", "lld-22", "llvm-22", "clang-tools-22", "libclang-common-22-dev", "libclang-rt-22-dev"),
        *("rocm-device-libs-22", "libamdhip64-dev", "libcomposable-kernel-dev", "libhsa-runtime-dev"),
        *(
            "libamd-comgr-dev",
            "libllvm22",
            "libcycle1",
            "libz3-4",
            "libamdhip64-7",
            "libc6",
            "libgcc-s1",
        ),
    }


@pytest.mark.parametrize(
    ("lost", "message"), [("clang-22", "lack .*clang-22|lack lld-21"), ("rocm-device-libs-22", "lack rocm-device-libs")]
)
def test_a_closure_that_lacks_something_is_reported(lost: str, message: str) -> None:
    with pytest.raises(ToolchainError, match=message):
        select([entry for entry in CLOSURE if entry.name != lost])


@pytest.mark.parametrize(
    ("repositories", "release", "env", "expected"),
    [
        ([("http://m/debian", "bookworm")], DEBIAN, {}, "http://m/debian"),
        (
            [("http://m/debian-security", "bookworm-security"), ("http://m/d", "bookworm-updates")],
            DEBIAN,
            {},
            "http://m/d",
        ),
        ([("http://third/apt", "nodistro"), ("http://m/debian", "sid")], DEBIAN, {}, "http://m/debian"),
        ([("http://m/debian", "bookworm")], DEBIAN, {"CKWATCH_DEBIAN_MIRROR": "http://mine/d/"}, "http://mine/d"),
        ([("http://m/ubuntu", "noble"), ("http://m/debian", "sid")], UBUNTU, {}, "http://m/debian"),
        ([("http://m/ubuntu", "noble")], UBUNTU, {}, None),
        ([("http://m/debian", "noble")], DEBIAN, {}, None),
        ([], {}, {}, None),
    ],
)
def test_which_archive_is_debians(
    repositories: list[tuple[str, str]], release: dict[str, str], env: dict[str, str], expected: str | None
) -> None:
    configured = [AptRepository(*pair) for pair in repositories]
    if expected is not None:
        assert debian_mirror(configured, release, env) == expected
        return
    with pytest.raises(ToolchainError, match="not configured with a Debian archive") as caught:
        debian_mirror(configured, release, env)
    assert "--mirror URL" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("http://m/debian", True),
        ("https://m/debian/", True),
        ("file:/srv/debian", True),
        ("copy:/srv/debian", True),
        ("debian", False),
        ("--force", False),
        ("http://m/a b", False),
        ("http://m/x\nTrusted: yes", False),
        ("", False),
    ],
)
def test_what_is_taken_as_a_mirror(url: str, good: bool) -> None:
    if good:
        assert check_mirror(url) == url.rstrip("/")
    else:
        with pytest.raises(ToolchainError, match="not the URL of a Debian mirror"):
            check_mirror(url)


@needs_apt
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "x.list",
            "# no\ndeb [arch=amd64 signed-by=/k] http://m/debian bookworm main contrib\ndeb-src http://s/d bookworm main\n",
        ),
        (
            "x.sources",
            (
                "Types: deb deb-src\nURIs: http://m/debian/\nSuites: bookworm\nComponents: main contrib\n"
                "\nEnabled: no\nTypes: deb\nURIs: http://off/debian\nSuites: sid\nComponents: main\n"
            ),
        ),
    ],
)
async def test_both_formats_of_apt_are_read(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    options = ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={tmp_path}"]
    options += ["-o", "APT::Architecture=amd64", "-o", "APT::Architectures=amd64"]
    assert await configured_repositories(options) == (AptRepository("http://m/debian", "bookworm"),)


def test_os_release(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("# x\nID=debian\nPRETTY_NAME=\"Debian 12\"\n\nVERSION_CODENAME='bookworm'\n")
    assert read_os_release(tmp_path / "r") == {**DEBIAN, "PRETTY_NAME": "Debian 12"}
    assert read_os_release(tmp_path / "none") == {}


@each_row(
    ("said", "message", "hint"),
    [
        ("W: Failed to fetch http://m/InRelease  Could not resolve 'm'", "cannot be reached", "network"),
        ("W: Failed to fetch http://m/x  Could not connect to m:80 (1.2.3.4). - connect (111: Connection refused)", "cannot be reached", "network"),
        ("W: GPG error: http://m sid InRelease: NO_PUBKEY 0E98404D386FA1D9", "signature", "debian-archive-keyring"),
        ("E: The repository 'http://m experimental InRelease' is not signed.", "signature", "debian-archive-keyring"),
        ("E: The repository 'http://m experimental Release' does not have a Release file.", "does not carry", "--mirror"),
        ("E: Failed to fetch http://m/InRelease  400  Bad Request\nE: The repository 'http://m sid InRelease' is not signed.", "does not carry", "--mirror"),
        ("Err:1 http://m sid InRelease\n  404  Not Found [IP: 1.2.3.4 80]", "does not carry", "--mirror"),
        ("E: Release file for http://m is expired (invalid since 3d).", "out of date", "--mirror"),
        ("E: Failed to fetch http://m/x.deb  Hash Sum mismatch", "does not match its index", "again"),
        (" hipcc : Depends: clang-22 but it is not installable\nE: Unable to correct problems, you have held broken packages.", "cannot be combined", "day or two"),
        ("E: Unable to locate package hipcc", "no such packages", "--mirror"),
        ("E: Write error - write (28: No space left on device)", "disk is full", "XDG_CACHE_HOME"),
        ("E: something new", "apt failed", "again"),
    ],
)  # fmt: skip
def test_what_apt_says_becomes_one_error_with_its_words(said: str, message: str, hint: str) -> None:
    error = explain_failure("cannot do it", said)
    assert error.message.startswith("cannot do it: ")
    assert message in error.message
    assert said.splitlines()[-1].strip() in error.message
    assert hint in (error.hint or "")


def test_reading_the_index() -> None:
    text = (
        "Package: a\nVersion: 1:2\nSection: contrib/libs\nPre-Depends: bb (>= 1)\nDepends: cc:any | dd, ee [amd64]\n"
        "Description: x\n Depends: nothing\n\nPackage: f\nVersion: 3\n"
    )
    assert parse_stanzas(text) == [
        PackageStanza("a", "1:2", "libs", frozenset({"bb", "cc", "dd", "ee"})),
        PackageStanza("f", "3", "", frozenset()),
    ]
    line = f"'http://m/pool/a%2b_1%3a2_amd64.deb' a+_1%3a2_amd64.deb 12 SHA256:{'0' * 64}\nReading…\n"
    assert parse_uris(line) == [AptPackage("a+", "1:2", "a+_1%3a2_amd64.deb", 12, "0" * 64)]
    assert parse_uris(f"'http://m/a_1_all.deb' a_1_all.deb 12 MD5Sum:{'0' * 32}\n") == []


def test_a_system_without_apt_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match="no apt-get and no apt-cache and no dpkg-deb") as caught:
        require_tools()
    assert "ROCM_PATH" in (caught.value.hint or "")


def test_without_a_keyring_nothing_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match="keyring is not installed") as caught:
        find_keyring([str(tmp_path / "none.gpg")])
    assert caught.value.hint == "apt-get install debian-archive-keyring"


@needs_apt
async def test_an_unsigned_archive_is_refused(tmp_path: Path) -> None:
    for suite in ("experimental", "sid"):
        folder = tmp_path / "archive/dists" / suite
        folder.mkdir(parents=True)
        (folder / "Release").write_text(f"Origin: Debian\nSuite: {suite}\nCodename: {suite}\nComponents: main\n")
    keyring = tmp_path / "keyring.gpg"
    keyring.write_bytes(b"")
    apt = PrivateApt(tmp_path / "über apt", AptSources(f"file:{tmp_path}/archive", keyring))
    with pytest.raises(ToolchainError, match="signature could not be verified"):
        await apt.update()


@needs_apt
async def test_an_archive_that_is_not_there(tmp_path: Path) -> None:
    apt = PrivateApt(tmp_path / "apt", AptSources(f"file:{tmp_path}/archive", tmp_path / "keyring.gpg"))
    with pytest.raises(ToolchainError, match="does not carry"):
        await apt.update()


@needs_apt
def test_nothing_of_the_host_is_written_and_no_hook_runs(tmp_path: Path) -> None:
    PrivateApt(tmp_path / "apt", AptSources("http://m/debian", tmp_path / "keyring.gpg"))
    text = (tmp_path / "apt/apt.conf").read_text()
    assert "#clear APT::Update::Post-Invoke;" in text
    for key in ("Dir::State", "Dir::Cache", "Dir::Cache::archives", "Dir::State::status", "Dir::Etc::sourceparts"):
        assert f'{key} "{tmp_path}/apt' in text
    sources = (tmp_path / "apt/sources/ckwatch.sources").read_text()
    assert f"Signed-By: {tmp_path}/keyring.gpg" in sources
    assert "trusted" not in sources.lower()
