"""The GEMM example as people work on it: its kernel file, its template, a daemon of its own, and edits as editors make.

The workspace is a copy of `examples/gemm` with `gemm_f16` alone, so that an edit dirties what is measured and nothing
else. Its store, sockets and logs are its own. The template, and what it includes for the instance's type, are copies of
the built-in ones with one more line, by the parameter `edition`: with another edition the text is one that no store and
no compiler cache has seen.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import anyio

import ckwatch_templates
from benchmarks.process_tree import below, end_tree
from benchmarks.quick_daemon import apart
from benchmarks.saving import save
from ckwatch.client import Client, connect
from ckwatch.compile.kept_clang import USE_PLUGIN
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import CkwatchError, plain_errors
from ckwatch.wire.state import File, Unit

EXAMPLE = Path(__file__).parent.parent / "examples" / "gemm"
TEMPLATE = "ck/gemm_universal.hip.j2"
INSTANCE = "ck/gemm_instance.j2"
KERNEL = "gemm_f16"
ARCH = "gfx942"

ERROR_LIMIT_S = 180.0
"""How long a first error may take."""

BUILD_LIMIT_S = 1800.0
"""How long a build of a few units may take."""

QUIET_S = 1.0
IDLE_EXIT_S = 900
"""A daemon whose benchmark was killed ends by itself after so long."""

_COMPILERS = ("hipcc", "clang", "cc1", "lld")
_IN_NAMESPACE = "namespace {{ unit_namespace }} {\n"
_IN_FUNCTION = "    using namespace {{ host_namespace }};\n"
_IN_TYPE = "/* AElementwiseOperation */ PassThrough,"

Value = int | bool | str | tuple[int, ...]
Parameters = Mapping[str, Value]
Found = TypeVar("Found")

A_CLUSTER = "ABlockTransferThreadClusterLengths_AK0_M_AK1"
B_CLUSTER = "BBlockTransferThreadClusterLengths_BK0_N_BK1"

BASE: Parameters = {"KPerBlock": 64, A_CLUSTER: (8, 32, 1), B_CLUSTER: (8, 32, 1), "edition": 0}
"""Parameters of all instances before an edit."""

TILES: tuple[Parameters, ...] = (
    {"KPerBlock": 32, A_CLUSTER: (4, 64, 1), B_CLUSTER: (4, 64, 1)},
    {"KPerBlock": 64, A_CLUSTER: (4, 64, 1), B_CLUSTER: (4, 64, 1)},
    {"KPerBlock": 32, A_CLUSTER: (2, 128, 1), B_CLUSTER: (4, 64, 1)},
    {"KPerBlock": 64, A_CLUSTER: (2, 128, 1), B_CLUSTER: (4, 64, 1)},
    {"KPerBlock": 32, A_CLUSTER: (4, 64, 1), B_CLUSTER: (2, 128, 1)},
)
"""Parameters that edits change in turn, besides the edition: an instance that was compiled before leaves a precompiled
header behind, which has all that an equal tile instantiates."""


def tile(pipeline: str, scheduler: str = "Intrawave", m_per_block: int = 128) -> dict[str, Value]:
    """The parameters of an instance of 256 threads whose tile is `m_per_block` × 128 × KPerBlock."""
    return {
        "MPerBlock": m_per_block,
        "NPerBlock": 128,
        "MXdlPerWave": m_per_block // 64,
        "NXdlPerWave": 2,
        "BlkGemmPipeSched": scheduler,
        "BlkGemmPipelineVer": pipeline,
    }


ONE: Mapping[str, Parameters] = {"v3_128x128_intrawave": tile("v3")}

EIGHT: Mapping[str, Parameters] = {
    "v1_128x128_intrawave": tile("v1"),
    "v1_128x128_interwave": tile("v1", "Interwave"),
    "v2_128x128_intrawave": tile("v2"),
    "v2_128x128_interwave": tile("v2", "Interwave"),
    "v3_128x128_intrawave": tile("v3"),
    "v3_256x128_intrawave": tile("v3", m_per_block=256),
    "v4_128x128_intrawave": tile("v4"),
    "v5_128x128_intrawave": tile("v5"),
}


class Example:
    """The workspace at `root`, with the given instances of the kernel `gemm_f16`."""

    def __init__(self, root: Path, instances: Mapping[str, Parameters]) -> None:
        self.root = root
        self.template = root / "templates" / TEMPLATE
        self.instance_template = root / "templates" / INSTANCE
        self.kernel_file = root / f"{KERNEL}.kernel.toml"
        self.units = tuple(f"{KERNEL}/{name}@{ARCH}" for name in instances)
        self._instances = instances
        text = (EXAMPLE / self.kernel_file.name).read_text()
        self._head = text[: text.index("[[instance]]")]

    def make(self) -> None:
        """Write the workspace."""
        self.template.parent.mkdir(parents=True)
        settings = (EXAMPLE / "ckwatch.toml").read_text()
        store = json.dumps(str(self.root.parent / "store"))
        own = f"\n[store]\nfolder = {store}\n\n[daemon]\nidle_exit_s = {IDLE_EXIT_S}\n"
        (self.root / "ckwatch.toml").write_text(settings + own)
        self.kernel_file.write_text(self.kernel_text())
        self.template.write_text(self.template_text())
        self.instance_template.write_text(self.instance_text())

    def kernel_text(self, changes: Parameters = BASE, instance_changes: Parameters | None = None) -> str:
        """The kernel file with other defaults than `BASE`, and with other parameters in every instance."""
        text = self._head
        for name, value in {**BASE, **changes}.items():
            line = f"{name} = {_toml(value)}"
            text, count = re.subn(rf"^{name} = .*$", line, text, flags=re.MULTILINE)
            if not count:
                text = text.replace("[defaults]\n", f"[defaults]\n{line}\n", 1)
        for instance, parameters in self._instances.items():
            lines = (f"{name} = {_toml(value)}" for name, value in {**parameters, **(instance_changes or {})}.items())
            text += "\n".join((f'[[instance]]\nname = "{instance}"', *lines, "\n"))
        return text

    def template_text(self, statement: str = "") -> str:
        """The template with one more line, and with `statement` in the exported function."""
        text = _built_in(TEMPLATE, _IN_NAMESPACE, _IN_FUNCTION)
        text = text.replace(_IN_NAMESPACE, f"{_IN_NAMESPACE}\nconstexpr int edition = {{{{ edition }}}};\n", 1)
        return text.replace(_IN_FUNCTION, f"{_IN_FUNCTION}    {statement}\n", 1) if statement else text

    def instance_text(self, operation: str = "PassThrough") -> str:
        """The included template of the instance's type, with another operation on A."""
        return _built_in(INSTANCE, _IN_TYPE).replace(_IN_TYPE, _IN_TYPE.replace("PassThrough", operation))


def _built_in(name: str, *anchors: str) -> str:
    text = (ckwatch_templates.ROOT / name).read_text()
    missing = [anchor.strip() for anchor in anchors if anchor not in text]
    if missing:
        raise CkwatchError(f"{name} is not the template that this benchmark edits: it has no `{missing[0]}`")
    return text


def _toml(value: Value) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


class Follower:
    """The client's knowledge of units and files, and when each became so."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.units: dict[str, Unit] = {}
        self.diagnostics: dict[str, tuple[Diagnostic, ...]] = {}
        self._check: Callable[[], None] = lambda: None

    async def follow(self) -> None:
        """Listen; to be run beside everything else."""
        async with self.client.events() as changes:
            async for change in changes:
                kind, _, name = change.topic.partition("/")
                if kind == "unit":
                    self.units.pop(name, None)
                elif kind == "file":
                    self.diagnostics.pop(name, None)
                if isinstance(change.state, Unit):
                    self.units[name] = change.state
                elif isinstance(change.state, File):
                    self.diagnostics[name] = change.state.diagnostics
                self._check()

    async def until(self, condition: Callable[[], Found | None], limit_s: float) -> tuple[float, Found]:
        """When the news came that made `condition` true, by the monotonic clock, and what it returned.

        Raises CkwatchError when it does not come in time.
        """
        done = anyio.Event()
        met: list[tuple[float, Found]] = []

        def check() -> None:
            if not met and (found := condition()) is not None:
                met.append((time.monotonic(), found))
                done.set()

        self._check = check
        check()
        with anyio.move_on_after(limit_s):
            await done.wait()
        self._check = lambda: None
        if not met:
            raise CkwatchError(f"what is waited for has not come within {limit_s:.0f} s")
        return met[0]

    def error(self, about: str = "") -> Diagnostic | None:
        """An error that speaks of the present input, and of `about`."""
        for diagnostics in self.diagnostics.values():
            for diagnostic in diagnostics:
                if diagnostic.severity == "error" and not diagnostic.stale and about in diagnostic.message:
                    return diagnostic
        return None

    def built(self, names: tuple[str, ...], before: Mapping[str, str | None]) -> tuple[Unit, ...] | None:
        """The units if each has a fresh artifact that is not the one of `before`. Raises where one has failed."""
        units = tuple(self.units[name] for name in names if name in self.units)
        new = [unit for unit in units if unit.fresh and unit.outcome is not None and unit.key != before[unit.id]]
        for unit in new:
            if unit.outcome in ("failed", "faulted"):
                raise CkwatchError(f"{unit.id} {unit.outcome}", str(self.error()))
        return units if len([unit for unit in new if unit.outcome == "built"]) == len(names) else None

    def keys(self) -> dict[str, str | None]:
        """Of the artifacts of all units, by the units' ids."""
        return {name: unit.key for name, unit in self.units.items()}


async def until_idle(client: Client, limit_s: float = BUILD_LIMIT_S) -> None:
    """Return when the daemon has nothing to do, in the background neither, and has not had for a while.

    Precompiled headers are made in the background: no compiler may run. Raises TimeoutError.
    """
    daemon = (await client.status()).pid
    quiet_since = time.monotonic()
    with anyio.fail_after(limit_s):
        while time.monotonic() - quiet_since < QUIET_S:
            await anyio.sleep(0.05)
            compilers = [process for process, name in below(daemon).items() if name.startswith(_COMPILERS)]
            compilers = [process for process in compilers if not _is_kept(process)]
            status = await client.status()
            if compilers or status.busy or status.precompiling:
                quiet_since = time.monotonic()


def _is_kept(process: int) -> bool:
    """Return True for a clang that waits for edits; while it begins, the daemon is precompiling."""
    try:
        return USE_PLUGIN[-1].encode() in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return True  # it has ended


@asynccontextmanager
async def example_daemon(
    instances: Mapping[str, Parameters], edit: Callable[[Example], object] = lambda _example: None
) -> AsyncIterator[tuple[Example, Client]]:
    """The workspace in a temporary folder, with a daemon in a process of its own; both are gone at the end. `edit`
    changes the workspace before the daemon sees it, which compiles what is edited later."""
    with tempfile.TemporaryDirectory(prefix="ckwatch-benchmark-") as folder, apart():
        os.environ.pop("CKWATCH_NO_DAEMON", None)
        example = Example(Path(folder).resolve() / "gemm", instances)
        example.make()
        edit(example)
        async with connect(example.root, trust=True, client_name="benchmark") as client:
            process = (await client.status()).pid
            try:
                yield example, client
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(client, process)


@asynccontextmanager
async def following(client: Client) -> AsyncIterator[Follower]:
    """A follower that listens as long as the context is open."""
    follower = Follower(client)
    async with plain_errors(), anyio.create_task_group() as tasks:
        tasks.start_soon(follower.follow)
        yield follower
        tasks.cancel_scope.cancel()


async def build(example: Example, client: Client) -> None:
    """Build all units. Raises CkwatchError where one does not compile, and TimeoutError."""
    with anyio.fail_after(BUILD_LIMIT_S):
        result = await client.build(*example.units)
    if not result.ok:
        raise CkwatchError("the example does not compile")


async def rest(example: Example, follower: Follower) -> None:
    """Put everything back as it was, and wait until nothing is left to do and no error is shown."""
    save(example.template, example.template_text())
    save(example.instance_template, example.instance_text())
    save(example.kernel_file, example.kernel_text())
    await follower.client.sync()
    await until_idle(follower.client)
    await follower.until(lambda: True if follower.error() is None else None, ERROR_LIMIT_S)


async def _end(client: Client, process: int) -> None:
    with suppress(CkwatchError, TimeoutError), anyio.fail_after(30):
        await client.stop()
        return
    end_tree(process)
