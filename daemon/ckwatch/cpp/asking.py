"""Asks clangd about the text of a unit: of the side that compiles a place, of both where one alone would be half an
answer."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from anyio import to_thread

import ckwatch_templates
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.toolchain.nvcc import NvccToolchain
from ckwatch.core.unit_state import InputState, UnitState
from ckwatch.cpp.arguments import CUDA_SUBSTITUTES, SIDES, clangd_arguments, cuda_arguments
from ckwatch.cpp.clangd import ClangdRefusalError, MemoryText, OvertakenError
from ckwatch.cpp.mappings import NotForwardedError, RenderedSource
from ckwatch.cpp.places import MEMORY_FOLDER, HeaderPlaces, KernelFilePlaces, Places, TemplatePlaces, path_of
from ckwatch.cpp.questions import METHODS, ClangdAnswer, Question, position_of
from ckwatch.cpp.renaming import left_behind
from ckwatch.cpp.supervisor import ClangdSupervisor
from ckwatch.model.errors import CkwatchError
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.text import LineIndex, Position, Range, text_digest
from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file
from ckwatch.wire.cpp import CppAnswer, CppRequest, Place, Side

OF_BOTH_SIDES = frozenset({"references", "rename"})
"""Questions that both sides answer where the first one passes over some of the text."""


@dataclass(frozen=True, slots=True)
class UnitSource:
    """A unit's render: the text with its map, the digests of the files that it was made of and its own, and how it is
    compiled. `input` is the unit's own, which counts from one again when a view of it is made anew. `unit` and the
    unsaved texts, `overlays`, are what it was made with."""

    input: InputState
    generation: int
    rendered: RenderedSource
    read: Mapping[str, str]
    digest: str
    request: CompileRequest
    unit: Unit
    overlays: Mapping[str, str]

    def is_of(self, unit: UnitState) -> bool:
        """Return True if it is the current text."""
        return self.input is unit.input and self.generation == unit.input.generation

    def edited(self, path: str, overlays: Mapping[str, str], cursor: Position) -> UnitSource | None:
        """The source after edits of a template; None where only a render can tell. Blocks; call from a worker
        thread. Raises CkwatchError."""
        before, digest = _template_text(path, self.overlays.get(path))
        after, now = _template_text(path, overlays.get(path))
        rendered = self.rendered.edited(path, before, after, cursor) if digest == self.read.get(path) else None
        if rendered is None:
            return None
        return replace(
            self, rendered=rendered, read={**self.read, path: now}, digest=text_digest(rendered.text), overlays=overlays
        )

    def digest_of(self, path: str | None) -> str:
        """Of a file that it was made of, empty for any other; None: of itself."""
        return self.digest if path is None else self.read.get(path, "")


@dataclass(frozen=True, slots=True)
class AskedSource:
    """A unit's source and the clangd that is asked about it. `substitutes` is a folder for headers of CUDA's."""

    unit: UnitState
    source: UnitSource
    supervisor: ClangdSupervisor
    compiler: CompilerToolchain
    root: Path
    substitutes: Path

    async def answer(self, request: CppRequest, overlays: Mapping[str, str]) -> CppAnswer:
        """The answer; `overlays` are the present unsaved texts. Raises as `Question.answer`."""
        both = request.question in OF_BOTH_SIDES
        possible = list(SIDES[self.source.request.language])
        wanted = [request.side] if request.side in possible else possible
        found: ClangdAnswer | None = None
        answered: Side = wanted[0]
        passed_over: list[Sequence[Range]] = []
        elsewhere: list[tuple[Side, Sequence[Range]]] = []
        for side in wanted:
            question = await self.question(request, side)
            refusal: ClangdRefusalError | None = None
            try:
                own = await question.answer()
            except ClangdRefusalError as error:
                refusal = error
            skipped: Sequence[Range] = (await self.supervisor.ready()).skipped.get(question.text.uri, ())
            passed_over.append(skipped)
            is_skipped = any(each.holds(position) for position in question.positions()[:1] for each in skipped)
            if is_skipped and (side != wanted[-1] or found is not None):
                elsewhere.append((side, skipped))
                continue
            if refusal is not None:
                raise refusal
            if found is None:
                found, answered = own, side
            else:
                found = found.joined(own)
            if not both or not skipped:
                break
        assert found is not None  # noqa: S101  # the last side answers or raises
        for side, skipped in elsewhere if both else ():
            seen = self._first_seen(found, skipped)
            if seen is not None:  # what stands where was asked is known to this side by another declaration
                question = await self.question(request.model_copy(update=seen), side)
                found = found.joined(await question.answer())
        if request.question == "rename":
            await self._refuse_partial(found, _in_all(passed_over), overlays)
        digest = self.source.digest_of(request.path)
        return CppAnswer(unit=self.unit.key.unit, side=answered, digest=digest, result=found.json)

    async def question(self, request: CppRequest, side: Side, slot: str = "main") -> Question:
        """The question to one side. `slot` distinguishes texts of a template that clangd has at the same time.
        Raises NotForwardedError before clangd is started, and as `ClangdSupervisor.ready`."""
        path, unit, source = request.path, self.unit.unit, self.source
        is_header = path is not None and not path.endswith((".j2", ".kernel.toml")) and path not in source.read
        # One text for all views and instances of a template: what clangd has read of the headers fits them all.
        uri_path = f"{MEMORY_FOLDER}/{slot}/{side}/{unit.kernel.template}"
        uri_path = f"{uri_path.removesuffix('.j2')}.{source.request.language.value}"
        common = (Path(uri_path).as_uri(), self.unit.key.unit, source.rendered, _is_built_in)
        places: Places
        if path is None or is_header:
            places = Places(*common)
        elif path == unit.kernel.path:
            own = {name: span for name, span in unit.instance.spans.items() if span.path == path}
            values = {name: (span, unit.instance.parameters[name]) for name, span in own.items()}
            places = KernelFilePlaces(*common, path, values)
        else:
            places = TemplatePlaces(*common, path)
        if not is_header and request.start is not None and METHODS[request.question][1]:
            places.forward(position_of(request.start), METHODS[request.question][1])
        program = await self.supervisor.program()
        cuda: tuple[str, ...] = ()
        if isinstance(self.compiler, NvccToolchain):
            cuda = await to_thread.run_sync(_cuda_arguments, self.compiler, self.substitutes)
        arguments = clangd_arguments(source.request, self.compiler, side, resources=program.resource_folder, cuda=cuda)
        text = MemoryText(uri_path, source.rendered.text, arguments, self.root, source.generation)
        if is_header and path is not None:
            content = await to_thread.run_sync(_header_text, path)
            text = MemoryText(path, content, arguments, self.root, source.generation, in_memory=False)
            places = HeaderPlaces(text.uri)
        return Question(
            request, text, places, self.supervisor, {"unit": self.unit.key.unit, "side": side, "path": path}
        )

    def _first_seen(self, found: ClangdAnswer, skipped: Sequence[Range]) -> dict[str, object] | None:
        """`path` and `start` of a place of the answer in text that is not `skipped`."""
        source = self.source.rendered
        for place in found.places:
            path, start = path_of(place.uri), place.range.start
            for position in map(source.lines.position, source.covers(path, start) if path is not None else ()):
                if not any(each.holds(position) for each in skipped):
                    return {"path": path, "start": Place(line=start.line, character=start.column)}
        return None

    async def _refuse_partial(self, found: ClangdAnswer, skipped: Sequence[Range], overlays: Mapping[str, str]) -> None:
        """Raise NotForwardedError where a rename would leave some of the name in a branch that this unit does not
        render or compile, and OvertakenError where a file has changed since it was rendered."""
        for path, own in _by_path(found):
            text, digest = await to_thread.run_sync(_template_text, path, overlays.get(path))
            if digest != self.source.read.get(path):
                raise OvertakenError(f"{path} has changed meanwhile")
            lines = LineIndex(text)
            for name in {text[lines.offset(each.start) : lines.offset(each.end)] for each in own}:
                reason = await to_thread.run_sync(left_behind, name, path, text, own, self.source.rendered, skipped)
                if reason is not None:
                    raise NotForwardedError(reason)


def _by_path(found: ClangdAnswer) -> Iterator[tuple[str, list[Range]]]:
    places: dict[str, list[Range]] = {}
    for place in found.places:
        places.setdefault(path_of(place.uri) or "", []).append(place.range)
    yield from places.items()


def _in_all(passed_over: Sequence[Sequence[Range]]) -> list[Range]:
    """Lines that every side passes over."""
    lines = [{line for each in one for line in range(each.start.line, each.end.line + 1)} for one in passed_over]
    both = sorted(set.intersection(*lines)) if lines else []
    return [Range(Position(line, 0), Position(line + 1, 0)) for line in both]


def _is_built_in(path: str) -> bool:
    return Path(path).is_relative_to(ckwatch_templates.ROOT)


def _template_text(path: str, unsaved: str | None) -> tuple[str, str]:
    """A template's text as Jinja counts its lines, and the digest of the whole file. Blocks."""
    content = _content(path) if unsaved is None else unsaved.encode("utf-8", "surrogatepass")
    text = content.decode("utf-8", "replace")
    return text.replace("\r\n", "\n").replace("\r", "\n"), hashlib.sha256(content).hexdigest()


def _header_text(path: str) -> str:
    return _content(path).decode("utf-8", "replace")


def _content(path: str) -> bytes:
    try:
        return read_file(path, SIDE_FILE_LIMIT_BYTES)
    except OSError as error:
        raise CkwatchError(f"{path} cannot be read: {error.strerror}") from error


def _cuda_arguments(toolchain: NvccToolchain, substitutes: Path) -> tuple[str, ...]:
    substitutes.mkdir(parents=True, exist_ok=True)
    for name in CUDA_SUBSTITUTES:
        (substitutes / name).touch()
    return cuda_arguments(toolchain.nvcc.resolve().parents[1], substitutes)
