"""Which Debian packages make a toolchain, and where on this machine they come from.

apt resolves the whole closure; of it only the roots below and the shared libraries under them are downloaded, about
half of the packages: Python, debconf and the host compilers serve other purposes than compiling HIP.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ckwatch.errors import ToolchainError
from ckwatch.toolchain.apt import Stanza, apt_environment
from ckwatch.toolchain.process import run

ROOTS = ("hipcc", "libamdhip64-dev", "libcomposable-kernel-dev")

# Followed into their shared libraries. `{n}` is LLVM's major version, which hipcc's own dependencies name.
_FOLLOWED = ("hipcc", "clang-{n}", "lld-{n}", "llvm-{n}", "clang-tools-{n}", "libamdhip64-dev")
_TAKEN = ("libclang-common-{n}-dev", "libclang-rt-{n}-dev", "rocm-device-libs-{n}", "libcomposable-kernel-dev",
          "libhsa-runtime-dev", "libamd-comgr-dev")  # fmt: skip

# Shared libraries of programs that are not unpacked: c-index-test, llvm-exegesis.
_UNUSED = re.compile(r"libclang1-\d+|libpfm4|gcc-\d+-base|lib32.*|libx32.*|libc6-.*|libc-.*")

_MIRROR_HINT = (
    "Name a Debian mirror: `ckwatch toolchain install --mirror URL`, or set CKWATCH_DEBIAN_MIRROR "
    "(the URL that would stand in a Debian machine's apt sources, without the suite)."
)


@dataclass(frozen=True, slots=True)
class Repository:
    """One suite of one archive that the machine's apt is configured with."""

    url: str
    suite: str


def llvm_major(names: Iterable[str]) -> int:
    """LLVM's major version among package names. Raises `ToolchainError` when clang is not among them."""
    majors = [int(found[1]) for name in names if (found := re.fullmatch(r"clang-(\d+)", name))]
    if not majors:
        raise ToolchainError("hipcc in Debian does not depend on clang any more", "Please report this to ckwatch.")
    return max(majors)


def openmp_headers(major: int) -> str:
    """The package with clang's `omp.h`, which nothing depends on; its runtime comes from the host (`host`)."""
    return f"libomp-{major}-dev"


def select(stanzas: Iterable[Stanza]) -> tuple[tuple[str, str], ...]:
    """Choose from a resolved closure the (package, version) pairs that a compile needs, sorted by name.

    Raises `ToolchainError` when the closure has no clang or lacks a package that is needed.
    """
    by_name = {stanza.name: stanza for stanza in stanzas}
    major = llvm_major(by_name)
    followed = [name.format(n=major) for name in _FOLLOWED]
    taken = [name.format(n=major) for name in _TAKEN]
    missing = [name for name in (*followed, *taken) if name not in by_name]
    if missing:
        raise ToolchainError(f"Debian's ROCm packages lack {', '.join(missing)}", "Please report this to ckwatch.")
    chosen = {*followed, *taken}
    queue = list(followed)
    while queue:
        for name in by_name[queue.pop()].depends:
            if name in by_name and name not in chosen and _is_library(by_name[name]):
                chosen.add(name)
                queue.append(name)
    return tuple(sorted((name, by_name[name].version) for name in chosen))


def _is_library(stanza: Stanza) -> bool:
    return stanza.section in ("libs", "oldlibs") and not _UNUSED.fullmatch(stanza.name)


def debian_mirror(repositories: Sequence[Repository], os_release: Mapping[str, str], env: Mapping[str, str]) -> str:
    """The Debian archive that this machine's apt is configured with, or the one that the environment names.

    Raises `ToolchainError` when there is none: on Ubuntu, say, whose archives have no Debian experimental.
    """
    given = env.get("CKWATCH_DEBIAN_MIRROR")
    if given:
        return check_mirror(given)
    suites = {"stable", "oldstable", "testing", "unstable", "sid", "experimental"}
    if os_release.get("ID") == "debian" and os_release.get("VERSION_CODENAME"):
        suites.add(os_release["VERSION_CODENAME"])
    for repository in repositories:
        suite = repository.suite.rstrip("/").removesuffix("-updates").removesuffix("-backports")
        if suite in suites and "security" not in repository.url:
            return repository.url
    name = os_release.get("PRETTY_NAME") or os_release.get("ID") or "this system"
    raise ToolchainError(f"apt on {name} is not configured with a Debian archive, where the packages are", _MIRROR_HINT)


def check_mirror(url: str) -> str:
    """A mirror's URL as apt takes it. Raises `ToolchainError` when it is none."""
    if not re.fullmatch(r"(https?|ftp|file|copy|mirror(\+\w+)?)[:+][^\s\"'\[\]]+", url):
        raise ToolchainError(f"not the URL of a Debian mirror: {url!r}", _MIRROR_HINT)
    return url.rstrip("/")


async def configured_repositories(options: Sequence[str] = ()) -> tuple[Repository, ...]:
    """What the machine's apt is configured with, read by apt itself, so both of its formats are understood."""
    template = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    done = await run(
        ["apt-get", *options, "indextargets", "--no-release-info", "--format", template, "Created-By: Packages"],
        env=apt_environment(),
    )
    found = []
    for line in done.output.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[2] == "main":
            entry = Repository(parts[0].rstrip("/"), parts[1])
            if entry not in found:
                found.append(entry)
    return tuple(found)


def read_os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    """The fields of an os-release file; empty when there is none."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
