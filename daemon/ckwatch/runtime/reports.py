"""Reports of code objects: worked out once for each artifact, and kept on disk with it.

A report goes with its artifact when that is evicted from the store. It is worked out anew where it was made by other
code of ours, or by other tools, than what is there now, and where it is damaged. What came of a tool that was killed
or took too long is shown, but not kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from pydantic import TypeAdapter

import ckwatch.analysis as analysis
import ckwatch.analyze as analyzing
from ckwatch.analysis.report import CodeObjectReport
from ckwatch.analyze import analyze
from ckwatch.compile.processes import Finished, Launcher, Verdict, run_process
from ckwatch.errors import CkwatchError, ToolchainError
from ckwatch.runtime.tools import Tools
from ckwatch.toolchain import Toolchain

FILE = "report.json"

KEPT = 100
"""Reports that are kept in memory; each has some kilobytes."""


class Reports:
    """By artifact (`CompileFacts.artifact`). `launch` starts LLVM's tools."""

    def __init__(self, tools: Tools, launch: Launcher = run_process) -> None:
        self._tools = tools
        self._launch = launch
        self._known: dict[str, CodeObjectReport] = {}
        self._turn = anyio.Lock()

    async def of(self, artifact: str, path: Path, arch: str) -> CodeObjectReport:
        """What the code object at `path` tells.

        Raises CkwatchError where no tools are there that could read it, LostArtifactError where it is not what was
        stored.
        """
        async with self._turn:
            known = await self.kept(artifact)
            if known is not None:
                return known
            await to_thread.run_sync(self._tools.load_product, path)  # what the tools read is what was compiled
            compiler = self._tools.compiler
            toolchain = None if compiler is None else compiler.toolchain
            if not isinstance(toolchain, Toolchain):
                raise CkwatchError(self._tools.problem or "there is no ROCm here, whose tools read code objects")
            watched = _Watched(self._launch)
            found = await analyze(path, toolchain, arch.partition(":")[0], launcher=watched)
            if watched.undisturbed and found.kernels:
                self._remember(artifact, found)
                await to_thread.run_sync(self._keep, artifact, found)
            return found

    async def kept(self, artifact: str) -> CodeObjectReport | None:
        """The report if it is kept."""
        known = self._known.get(artifact)
        if known is None:
            known = await to_thread.run_sync(self._read, artifact)
            if known is not None:
                self._remember(artifact, known)
        return known

    def holds(self, artifact: str) -> bool:
        """Whether the report is one that may be relied upon later: no tool was disturbed."""
        return artifact in self._known

    async def past(self, artifact: str, arch: str) -> CodeObjectReport | None:
        """The report of an artifact that may have been evicted; None then."""
        known = await self.kept(artifact)
        path = None if known is not None else await to_thread.run_sync(self._code_object, artifact)
        if path is None:
            return known
        try:
            return await self.of(artifact, path, arch)
        except CkwatchError:
            return None

    def _remember(self, artifact: str, report: CodeObjectReport) -> None:
        self._known.pop(artifact, None)
        self._known[artifact] = report
        if len(self._known) > KEPT:
            del self._known[next(iter(self._known))]

    def _code_object(self, artifact: str) -> Path | None:
        store = self._tools.store
        entry = None if store is None else store.entry(*_parts(artifact))
        return None if entry is None else entry.code_object

    def _read(self, artifact: str) -> CodeObjectReport | None:
        store = self._tools.store
        content = None if store is None else store.derived(*_parts(artifact), FILE)
        return None if content is None else from_bytes(content, self._tools.identity)

    def _keep(self, artifact: str, report: CodeObjectReport) -> None:
        if self._tools.store is not None:
            self._tools.store.keep_derived(*_parts(artifact), FILE, to_bytes(report, self._tools.identity))


class _Watched:
    """Starts tools, and knows whether each came to its end by itself."""

    def __init__(self, launch: Launcher) -> None:
        self._launch = launch
        self.undisturbed = True

    async def __call__(self, arguments: Sequence[str], **options: Any) -> Finished:
        try:
            finished = await self._launch(arguments, **options)
        except ToolchainError:
            self.undisturbed = False
            raise
        self.undisturbed = self.undisturbed and finished.verdict is Verdict.EXITED
        return finished


@cache
def made_by() -> int:
    """A number for the code that makes reports and figures, for a thread: what was kept by another is not shown."""
    folders = [Path(package.__file__ or "").parent for package in (analysis, analyzing)]
    paths = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    digest = hashlib.sha256()
    for path in (*paths, Path(__file__).with_name("insights.py")):
        digest.update(path.read_bytes())
    return int.from_bytes(digest.digest()[:6], "big")


def to_bytes(report: CodeObjectReport, tools: str) -> bytes:
    """A line that says what follows, and the report as JSON."""
    body = _adapter().dump_json(report)
    head = {"made_by": made_by(), "tools": tools, "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(head).encode() + b"\n" + body


def from_bytes(content: bytes, tools: str) -> CodeObjectReport | None:
    """The report; None where it is damaged, made by other code or by other tools than `tools`, if there are any."""
    head, _, body = content.partition(b"\n")
    try:
        said = json.loads(head)
        written_by = {"made_by": made_by(), "tools": tools or said["tools"]}
        if said != {**written_by, "sha256": hashlib.sha256(body).hexdigest()}:
            return None
        return _adapter().validate_json(body)
    except (ValueError, KeyError, TypeError):
        return None


def _parts(artifact: str) -> tuple[str, str]:
    """The keys of what was compiled and of the headers."""
    key, _, headers = artifact.partition(".")
    return key, headers


@cache
def _adapter() -> TypeAdapter[CodeObjectReport]:
    return TypeAdapter(CodeObjectReport)
