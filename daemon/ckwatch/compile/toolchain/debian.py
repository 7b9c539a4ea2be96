"""Debian packages: which ones make a toolchain, and apt in private folders, which resolves and downloads them.

apt runs as an ordinary user and touches nothing of the host. The host's apt configuration is kept for what the network
needs (proxies, certificates); its sources, its state and its hooks are not. Signatures are checked with the Debian
archive keyring of the host, always.

apt resolves the whole closure; of it only the roots (`ROOTS`) and the shared libraries under them are downloaded, about
half of the packages: Python, debconf and the host compilers serve other purposes than compiling HIP.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from ckwatch.compile.toolchain.probe import run_tool
from ckwatch.model.errors import ToolchainError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.system.async_processes import ProcessResult
from ckwatch.system.user_files import digest_file, read_file

SUITES = ("experimental", "sid")

_TRY_LATER = "Run it again later, or choose another mirror with --mirror URL."

Meanwhile = Callable[[], Coroutine[Any, Any, object]]

_NOT_DEBIAN = (
    "Install AMD's own ROCm packages with Composable Kernel for your system, or unpack them and set ROCM_PATH; "
    "`ckwatch doctor` says what is still missing."
)

_KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.pgp",
    "/usr/share/keyrings/debian-archive-keyring.gpg",
)

_NOT_VERIFIED = (
    "the archive's signature could not be verified with the Debian archive keyring",
    "Update the keyring (apt-get install debian-archive-keyring), or choose another mirror with --mirror URL.",
)

# What apt says, what that means, and what to do: the first that matches counts.
_APT_FAILURES: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|enough free space",
        "the disk is full",
        "Free some space, or set XDG_CACHE_HOME to a larger disk, and run it again.",
    ),
    (
        r"NO_PUBKEY|BADSIG|EXPKEYSIG|REVKEYSIG|couldn't be verified",
        *_NOT_VERIFIED,
    ),
    (
        r"Could not (resolve|connect|handshake)|Temporary failure|Connection (failed|timed out|refused)|unreachable",
        "the mirror cannot be reached",
        "Check the network and the mirror's address; choose another mirror with --mirror URL or CKWATCH_DEBIAN_MIRROR.",
    ),
    (
        r"Release file .* is (expired|not valid yet)|is expired \(invalid since",
        "the mirror's index is out of date",
        "Choose another mirror with --mirror URL, or set Acquire::Check-Valid-Until in apt's configuration.",
    ),
    (
        r"Hash Sum mismatch|unexpected size|Hashes of received file",
        "the mirror delivered a file that does not match its index",
        "It is probably being updated: wait a few minutes and run it again; what is already here is kept.",
    ),
    (
        r"unmet dependencies|Unable to correct problems|Unable to satisfy dependencies",
        "the packages in this suite of Debian cannot be combined at the moment",
        "Experimental and sid move: try again in a day or two, or point --mirror at a snapshot of the archive.",
    ),
    (
        r"Unable to locate package|has no installation candidate|was not found",
        "the mirror has no such packages",
        "Choose a full Debian mirror with --mirror URL or CKWATCH_DEBIAN_MIRROR.",
    ),
    (
        r"does not have a Release file|no longer has a Release file| 4\d\d +[A-Z]",
        "the mirror does not carry Debian's suites experimental and sid",
        "Choose a full Debian mirror with --mirror URL or CKWATCH_DEBIAN_MIRROR.",
    ),
    (r"is not signed", *_NOT_VERIFIED),
)


@dataclass(frozen=True, slots=True)
class AptPackage:
    """One package version as the archive's signed index describes it; `size_bytes` and `sha256` are of the .deb."""

    name: str
    version: str
    file_name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PackageStanza:
    """The resolver's description of a package: enough to decide if it is needed here."""

    name: str
    version: str
    section: str
    depends: frozenset[str]


def require_tools(hint: str = _NOT_DEBIAN) -> None:
    """Raise `ToolchainError` when this system has no apt and dpkg; `hint` says what else can be done."""
    missing = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb") if shutil.which(tool) is None]
    if missing:
        raise ToolchainError(
            f"this system has no {' and no '.join(missing)}, so nothing can be fetched from Debian", hint
        )


def find_keyring(candidates: Sequence[str] = _KEYRINGS) -> Path:
    """The host's Debian archive keyring. Raises `ToolchainError` naming the package that brings it."""
    for candidate in map(Path, candidates):
        if candidate.is_file():
            return candidate
    raise ToolchainError(
        "the Debian archive keyring is not installed, so signatures could not be checked",
        "apt-get install debian-archive-keyring",
    )


def apt_environment() -> dict[str, str]:
    """The environment for apt: the caller's (proxies), messages in English, no questions."""
    return {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "", "DEBIAN_FRONTEND": "noninteractive"}


def explain_failure(action: str, text: str) -> ToolchainError:
    """Turn apt's messages into one error: what is wrong, apt's own words, and what to do."""
    printed = [
        line
        for line in text.splitlines()
        if re.match(r"[EW]: |Err:| +\d{3}  ?\w| +\S+ : (Depends|Conflicts|Breaks)", line)
    ]
    quoted = "\n".join(f"  {line.strip()}" for line in (printed or text.splitlines()[-5:])[:12])
    for pattern, message, hint in _APT_FAILURES:
        if re.search(pattern, text):
            return ToolchainError(f"{action}: {message}\n{quoted}", hint)
    return ToolchainError(f"{action}: apt failed\n{quoted}", "Run it again; if it stays, choose another --mirror.")


@dataclass(frozen=True, slots=True)
class AptSources:
    """The archive to read, instead of those that the machine is configured with."""

    mirror: str
    keyring: Path
    suites: tuple[str, ...] = SUITES


class PrivateApt:
    """One private apt state in `folder`; `sources` None means those of the machine.

    Every method raises `ToolchainError` with apt's own words when apt fails.
    """

    def __init__(self, folder: Path, sources: AptSources | None) -> None:
        self.folder = folder
        self.archives = folder / "archives"
        self._config = folder / "apt.conf"
        self._sources = sources
        self._archive = sources.mirror if sources is not None else "this machine's archives"
        for part in ("lists/partial", "archives/partial", "sources", "empty", "cache"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text("")
        if sources is not None:
            (folder / "sources" / "ckwatch.sources").write_text(
                _sources_text("deb", sources.mirror, sources.suites, sources.keyring)
            )
        self._config.write_text(_configuration(folder, own_sources=sources is not None))

    async def update(self, *, strict: bool = True) -> None:
        """Fetch and verify the indexes; without `strict`, one of several archives may fail."""
        done = await self._apt("apt-get", "update")
        # apt calls an index that it could not fetch a warning, and succeeds.
        failed = re.search(r"^(W: (Failed to fetch|GPG error|Some index)|E: |Err:)", _text(done), re.MULTILINE)
        if done.exit_status or (strict and failed):
            raise explain_failure(f"cannot read the package indexes of {self._archive}", _text(done))

    async def version(self, name: str, suite: str | None = None) -> str | None:
        """Return the version that would be installed, from `suite` where it is there; None if no suite has it."""
        release = ("-o", f"APT::Default-Release={suite}") if suite else ()
        done = await self._apt("apt-cache", *release, "policy", name)
        found = re.search(r"^  Candidate: (?!\(none\))(\S+)$", done.stdout, re.MULTILINE)
        return found[1] if found else None

    async def resolve(self, names: Sequence[str], suite: str | None = SUITES[0]) -> tuple[tuple[str, str], ...]:
        """Every (package, version) that apt would install on an empty system, from `suite` where it can."""
        action = f"cannot resolve {' '.join(names)}"
        first = await self._apt("apt-get", *_target(suite), "--simulate", "install", *names)
        done = first
        if first.exit_status and suite:  # what was in experimental may have moved on to sid
            done = await self._apt("apt-get", "--simulate", "install", *names)
        if done.exit_status:
            raise explain_failure(action, _text(first))
        found = re.findall(r"^Inst (\S+) \((\S+) ", done.stdout, re.MULTILINE)
        if not found:
            raise explain_failure(action, _text(done))
        return tuple((name.partition(":")[0], version) for name, version in found)

    async def describe(self, packages: Iterable[tuple[str, str]]) -> tuple[PackageStanza, ...]:
        """Section and dependencies of exact versions."""
        done = await self._apt("apt-cache", "show", *(f"{name}={version}" for name, version in packages))
        if done.exit_status:
            raise explain_failure("cannot read the package index", _text(done))
        return tuple(parse_stanzas(done.stdout))

    async def locate(
        self, packages: Sequence[tuple[str, str | None]], suite: str | None = None
    ) -> tuple[AptPackage, ...]:
        """File names, sizes and SHA-256, from the signed index; version None means the newest, in `suite` if it is
        there."""
        wanted = [f"{name}={version}" if version else name for name, version in packages]
        done = await self._apt("apt-get", *_target(suite), "--print-uris", "download", *wanted)
        found = parse_uris(done.stdout)
        if done.exit_status or len(found) != len(packages):
            raise explain_failure("cannot locate the packages in the archive", _text(done))
        by_name = {package.name: package for package in found}
        try:
            return tuple(by_name[name] for name, _ in packages)
        except KeyError as error:
            raise ToolchainError(f"the archive's index has no file for {error.args[0]}", "Run it again.") from error

    def is_intact(self, package: AptPackage) -> bool:
        """Return True if the package lies in `archives` with the hash that the signed index gives."""
        try:
            return digest_file(self.archives / package.file_name) == package.sha256
        except FileNotFoundError:
            return False

    async def download(self, packages: Sequence[AptPackage], *, on_bytes: Callable[[int], None]) -> None:
        """Fetch what is not there yet into `archives`; `on_bytes` gets how many bytes are there."""
        names = {package.file_name for package in packages}

        async def watch() -> None:
            while True:
                on_bytes(sum(_size(self.archives / name) or _size(self.archives / "partial" / name) for name in names))
                await anyio.sleep(0.15)

        missing = [package for package in packages if _size(self.archives / package.file_name) != package.size_bytes]
        if not missing:
            return
        done = await self._apt(
            "apt-get",
            "download",
            *(f"{package.name}={package.version}" for package in missing),
            folder=self.archives,
            meanwhile=watch,
        )
        if done.exit_status:
            raise explain_failure("cannot download the packages", _text(done))

    async def fetch_source(self, name: str, suite: str) -> Path:
        """Fetch the upstream archive of a source package into `archives`, with the hash of the signed index.

        Raises `ToolchainError` where there is none, also for a state that reads the machine's own archives.
        """
        if self._sources is not None:
            text = _sources_text("deb-src", self._sources.mirror, (suite,), self._sources.keyring)
            (self.folder / "sources" / "source.sources").write_text(text)
            await self.update()
        options = ("-t", suite, "source", "--download-only", "--tar-only")
        done = await self._apt("apt-get", *options, "--print-uris", name)
        found = re.findall(r"^'[^']*' (\S+\.orig\.tar\.\w+) \d+ SHA256:([0-9a-f]{64})", done.stdout, re.MULTILINE)
        if done.exit_status or len(found) != 1:
            raise explain_failure(f"cannot locate the source package {name} in the archive", _text(done))
        file_name, sha256 = found[0]
        done = await self._apt("apt-get", *options, name, folder=self.archives)
        if done.exit_status:
            raise explain_failure(f"cannot download the source package {name}", _text(done))
        path = self.archives / str(file_name)
        if await anyio.to_thread.run_sync(digest_file, path) != sha256:
            raise ToolchainError(f"the mirror delivered a file that does not match its hash: {file_name}", _TRY_LATER)
        return path

    async def _apt(
        self, program: str, *arguments: str, folder: Path | None = None, meanwhile: Meanwhile | None = None
    ) -> ProcessResult:
        return await run_tool(
            [program, "-c", self._config, "-q", *arguments],
            environment=apt_environment(),
            folder=folder or self.folder,
            meanwhile=meanwhile,
        )


def parse_stanzas(text: str) -> list[PackageStanza]:
    """Read the output of `apt-cache show`; of alternatives in a dependency all are taken."""
    stanzas = []
    for block in re.split(r"\n\s*\n", text.strip()):
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): *(.*)$", block, re.MULTILINE))
        if "Package" in fields:
            depends = f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}"
            names = (re.match(r"\s*([a-z0-9][a-z0-9+.-]+)", part) for part in re.split(r"[,|]", depends))
            stanzas.append(
                PackageStanza(
                    fields["Package"],
                    fields.get("Version", ""),
                    fields.get("Section", "").rpartition("/")[2],
                    frozenset(name[1] for name in names if name),
                )
            )
    return stanzas


def parse_uris(text: str) -> list[AptPackage]:
    """Read the output of `apt-get --print-uris download`."""
    found = []
    for file_name, size, sha256 in re.findall(r"^'[^']*' (\S+) (\d+) SHA256:([0-9a-f]{64})", text, re.MULTILINE):
        name, version, _ = file_name.split("_", 2)
        found.append(AptPackage(name, version.replace("%3a", ":").replace("%3A", ":"), file_name, int(size), sha256))
    return found


def _sources_text(kind: str, mirror: str, suites: Sequence[str], keyring: Path) -> str:
    return f"Types: {kind}\nURIs: {mirror}\nSuites: {' '.join(suites)}\nComponents: main\nSigned-By: {keyring}\n"


def _configuration(folder: Path, *, own_sources: bool) -> str:
    sources = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": folder / "sources",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": folder / "empty",
        "Dir::Etc::trusted": "/dev/null",
        "Dir::Etc::trustedparts": folder / "empty",
    }
    quoted = {
        "Dir::State": folder,
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Cache::archives": folder / "archives",
        # Container images switch these off, and every call would read the whole index again.
        "Dir::Cache::pkgcache": folder / "cache" / "pkgcache.bin",
        "Dir::Cache::srcpkgcache": folder / "cache" / "srcpkgcache.bin",
        "Acquire::GzipIndexes": "false",
        **(sources if own_sources else {}),
        "Dir::Log": folder,
        "APT::Install-Recommends": "false",
        "APT::Install-Suggests": "false",
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::AllowInsecureRepositories": "false",
        "Acquire::ForceHash": "SHA256",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        # Root's downloads are handed to the user `_apt`, who may not enter a private folder.
        "APT::Sandbox::User": "root",
    }
    hooks = ("APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success")
    lines = [f"#clear {name};" for name in hooks]
    lines += ["#clear Acquire::IndexTargets::deb::DEP-11;", "#clear Acquire::IndexTargets::deb::CNF;"]
    lines += [f'{key} "{value}";' for key, value in quoted.items()]
    return "\n".join(lines) + "\n"


def _target(suite: str | None) -> tuple[str, ...]:
    return ("-t", suite) if suite else ()


def _text(done: ProcessResult) -> str:
    return f"{done.stdout}\n{done.stderr}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


ROOTS = ("hipcc", "libamdhip64-dev")
CK_PACKAGE = "libcomposable-kernel-dev"

# Followed into their shared libraries. `{n}` is LLVM's major version, which hipcc's own dependencies name.
_FOLLOWED = ("hipcc", "clang-{n}", "lld-{n}", "llvm-{n}", "clang-tools-{n}", "libamdhip64-dev")
# Of alternatives, the first that is there. Debian 12 names less by version, and only experimental has CK.
_TAKEN = ("libclang-common-{n}-dev", "libclang-rt-{n}-dev|libclang-common-{n}-dev", "libhsa-runtime-dev",
          "libamd-comgr-dev")  # fmt: skip
_DEVICE_LIBRARIES = re.compile(r"rocm-device-libs(-\d+)?$")

# Shared libraries of programs that are not unpacked: c-index-test, llvm-exegesis.
_UNUSED = re.compile(r"libclang1-\d+(t64)?|libpfm4|gcc-\d+-base|lib32.*|libx32.*|libc6-.*|libc-.*")

_MIRROR_HINT = (
    "Name a Debian mirror: `ckwatch toolchain install --mirror URL`, or set CKWATCH_DEBIAN_MIRROR "
    "(the URL that would stand in a Debian machine's apt sources, without the suite)."
)


@dataclass(frozen=True, slots=True)
class AptRepository:
    """One suite of one archive that the machine's apt is configured with."""

    url: str
    suite: str


def upstream(version: str) -> str:
    """Return the version of what was packaged: `7.2.4` of `1:7.2.4+dfsg-1~exp1`."""
    return re.sub(r"^\d+:|[-+~].*$", "", version)


def llvm_major(names: Iterable[str]) -> int:
    """LLVM's major version among package names. Raises `ToolchainError` when clang is not among them."""
    majors = [int(found[1]) for name in names if (found := re.fullmatch(r"clang-(\d+)", name))]
    if not majors:
        raise ToolchainError("hipcc in Debian no longer depends on clang", "Please report this to ckwatch.")
    return max(majors)


def openmp_headers(major: int) -> str:
    """The package with clang's `omp.h`, which nothing depends on; its runtime comes from the host (`host`)."""
    return f"libomp-{major}-dev"


def clang_packages(major: int) -> tuple[str, ...]:
    """The packages of another clang than the one that hipcc depends on."""
    named = (*_FOLLOWED, *_TAKEN)
    return tuple(name.partition("|")[0].format(n=major) for name in named if "{n}" in name)


def select(stanzas: Iterable[PackageStanza]) -> tuple[tuple[str, str], ...]:
    """Choose from a resolved closure the (package, version) pairs that a compile needs, sorted by name; of several
    clangs, the newest.

    Raises `ToolchainError` when the closure has no clang or lacks a package that is needed.
    """
    by_name = {stanza.name: stanza for stanza in stanzas}
    major = llvm_major(by_name)
    followed = [name.format(n=major) for name in _FOLLOWED]
    alternatives = [name.format(n=major).split("|") for name in _TAKEN]
    for name in [name for name in by_name if _DEVICE_LIBRARIES.match(name)] or ["rocm-device-libs"]:
        built_by = name.removeprefix("rocm-device-libs")  # that clang declares what they have
        alternatives += [[name], *([[f"libclang-common{built_by}-dev"]] if built_by else [])]
    taken = [next((name for name in names if name in by_name), names[0]) for names in alternatives]
    missing = [name for name in (*followed, *taken) if name not in by_name]
    if missing:
        raise ToolchainError(f"Debian's ROCm packages lack {', '.join(missing)}", "Please report this to ckwatch.")
    chosen = {*followed, *taken, *({CK_PACKAGE} & by_name.keys())}
    queue = list(followed)
    while queue:
        for name in by_name[queue.pop()].depends:
            if name in by_name and name not in chosen and _is_library(by_name[name]):
                chosen.add(name)
                queue.append(name)
    return tuple(sorted((name, by_name[name].version) for name in chosen))


def _is_library(stanza: PackageStanza) -> bool:
    return stanza.section in ("libs", "oldlibs") and not _UNUSED.fullmatch(stanza.name)


def debian_mirror(repositories: Sequence[AptRepository], os_release: Mapping[str, str], env: Mapping[str, str]) -> str:
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


async def configured_repositories(options: Sequence[str] = ()) -> tuple[AptRepository, ...]:
    """Return the repositories of the machine's apt, read by apt itself, so both of its formats are understood."""
    template = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    done = await run_tool(
        ["apt-get", *options, "indextargets", "--no-release-info", "--format", template, "Created-By: Packages"],
        environment=apt_environment(),
    )
    found = []
    for line in done.stdout.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[2] == "main":
            entry = AptRepository(parts[0].rstrip("/"), parts[1])
            if entry not in found:
                found.append(entry)
    return tuple(found)


def read_os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    """The fields of an os-release file; empty when there is none."""
    try:
        lines = read_file(path).decode(errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.startswith("#"))
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}
