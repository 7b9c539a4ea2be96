"""A miniature of templates, kernel files and headers: all that a daemon computes of them, in microseconds.

A text is a list of lines, each a word and what it is about; its SHA-256 is the text itself.

    template      token X · blank · include NAME · header NAME · warn · hint · fail · broken
    header        token X · header NAME · warn · fail
    kernel file   template NAME · flags F · shape M · instance NAME VALUE · blank · broken
    ckwatch.toml  settings X · jobs N · no-compiler · everything · apart · bench SECONDS · also NAME… · also-built

`blank` moves what follows, and is no input to a compiler. The value 13 breaks an instance rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from ckwatch.core.events import CompileFacts, HeaderFacts, KernelUnits, RenderFacts, ViewOverrides
from ckwatch.model.diagnostics import Diagnostic, Severity, Source
from ckwatch.model.kernels import Instance, Kernel, Outcome, Shape, Unit
from ckwatch.model.text import Span, span
from helpers.units import gemm

ROOT = "/ws"
TOML = f"{ROOT}/ckwatch.toml"
FOLDERS = (f"{ROOT}/over", f"{ROOT}/templates")
"""Folders of templates, in order."""
INCLUDES = ("/ck/first", "/ck")
"""Folders of headers."""
RULE_BREAKER = 13

Read = Callable[[str], str | None]


@lru_cache(maxsize=10_000)
def lines_of(text: str) -> tuple[tuple[str, ...], ...]:
    """The words of each line."""
    return tuple(tuple(line.split()) for line in text.split("\n") if line)


@dataclass(frozen=True, slots=True)
class Text:
    """A rendered unit. `place` is where its messages belong."""

    tokens: str
    headers: tuple[str, ...]
    words: frozenset[str]
    place: Span


def kernel_units(path: str, text: str, archs: tuple[str, ...]) -> KernelUnits | None:
    """The kernel of a kernel file; None when it is broken."""
    return _kernel_units(path, text, archs or ("gfx942",))


@lru_cache(maxsize=10_000)
def _kernel_units(path: str, text: str, archs: tuple[str, ...]) -> KernelUnits | None:
    template, found = "", []
    flags: tuple[str, ...] = ()
    shapes: list[Shape] = []
    for number, (word, *rest) in enumerate(lines_of(text)):
        if word == "broken":
            return None
        if word == "template":
            template = rest[0]
        elif word == "flags":
            flags = (*flags, rest[0])
        elif word == "shape":
            shapes.append(Shape(rest[0], {"M": int(rest[0])}, {}, span(path, number, 0, number, 1)))
        elif word == "instance":
            here = span(path, number, 0, number, 1)
            found.append(Instance(rest[0], {"p": int(rest[1])}, here, {"p": here}))
    name = path.rsplit("/", 1)[-1].partition(".")[0]
    place = span(path, 0, 0, 0, 1)
    kernel = Kernel(name, path, template, place, _OPERATION, {}, tuple(shapes), tuple(found), archs, flags)
    return KernelUnits(kernel, tuple(Unit(kernel, instance, arch) for instance in found for arch in archs))


_OPERATION = gemm()


def render(read: Read, unit: Unit, options: ViewOverrides) -> tuple[RenderFacts, Text | None]:
    """A unit's text, and the facts of its render."""
    walk = _Walk(read)
    walk.template(unit.kernel.template)
    tokens = f"{unit.kernel.template} p={unit.instance.parameters['p']} {' '.join(walk.tokens)}"
    diagnostics = []
    if walk.problem is not None:
        diagnostics.append(_message(Severity.ERROR, Source.JINJA, walk.problem, walk.place))
    if options.rules and unit.instance.parameters["p"] == RULE_BREAKER:
        diagnostics.append(_message(Severity.ERROR, Source.RULE, "p must not be 13", unit.instance.spans["p"]))
    if "hint" in walk.words:
        diagnostics.append(_message(Severity.HINT, Source.RULE, "slow", unit.instance.span))
    ok = not any(diagnostic.severity is Severity.ERROR for diagnostic in diagnostics)
    missed = frozenset(walk.missed)
    if walk.problem is not None:
        return RenderFacts(False, tuple(diagnostics), walk.reads, missed), None
    facts = RenderFacts(ok, tuple(diagnostics), walk.reads, missed, tokens, "symbol")
    return facts, Text(tokens, tuple(walk.headers), frozenset(walk.words), walk.place)


class _Walk:
    """Return the files that a render reads, in order."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self.reads: dict[str, str] = {}
        self.missed: set[str] = set()
        self.tokens: list[str] = []
        self.headers: list[str] = []
        self.words: set[str] = set()
        self.problem: str | None = None
        self.place = span(FOLDERS[-1], 0, 0, 0, 0)
        self.within: list[str] = []

    def template(self, name: str) -> None:
        if self.problem is not None:
            return
        for folder in FOLDERS:
            path = f"{folder}/{name}"
            text = self.read(path)
            if text is not None:
                self.reads[path] = text
                self.body(name, path, text)
                return
            self.missed.add(path)
        self.problem = f"{name} is not there"

    def body(self, name: str, path: str, text: str) -> None:
        if name in self.within:
            self.problem = f"{name} includes itself"
            return
        self.within.append(name)
        if not self.within[1:]:
            self.place = span(path, 0, 0, 0, 1)
        for word, *rest in lines_of(text):
            if word == "broken":
                self.problem = f"{name} is broken"
            elif word == "include":
                self.template(rest[0])
            elif word == "blank":
                line = self.place.start.line + 1
                self.place = span(self.place.path, line, 0, line, 1)
            elif word == "header":
                self.headers.append(rest[0])
                self.tokens.append(f"#{rest[0]}")
            elif word == "token":
                self.tokens.append(rest[0])
            else:
                self.words.add(word)
                self.tokens += [word] if word != "hint" else []
            if self.problem is not None:
                return
        self.within.pop()


def compile_text(read: Read, text: Text, unit: Unit, settings: str, options: ViewOverrides) -> CompileFacts:
    """Outcome of compiling a text with the headers that are found. `key` names all that went into it."""
    present: dict[str, str] = {}
    absent: set[str] = set()
    words = set(text.words & {"warn", "fail"})
    left, done = list(text.headers), set()
    while left:
        name = left.pop()
        if name in done:
            continue
        done.add(name)
        for folder in INCLUDES:
            path = f"{folder}/{name}"
            content = read(path)
            if content is not None:
                present[path] = content
                left += [rest[0] for word, *rest in lines_of(content) if word == "header"]
                words |= {f"header-{word}" for word, *_ in lines_of(content) if word in {"warn", "fail"}}
                break
            absent.add(path)
        else:
            words.add("fail")
    headers = header_facts(tuple(sorted(present.items())), frozenset(absent))
    failed = bool(words & {"fail", "header-fail"})
    made = ["shared-object"] if unit.kernel.template.endswith(".cpp.j2") else ["shared-object", "code-object"]
    key = f"{text.tokens} | {unit.arch} {unit.kernel.flags} {settings} | {headers.name}"
    shown = {"warn", *(["header-warn"] if options.header_warnings else [])} & words
    diagnostics = [_message(Severity.WARNING, Source.CLANG, word, text.place) for word in sorted(shown)]
    if failed:
        diagnostics.append(_message(Severity.ERROR, Source.CLANG, key, text.place))
    return CompileFacts(
        Outcome.FAILED if failed else Outcome.BUILT,
        text.tokens,
        key,
        tuple(diagnostics),
        {} if failed else dict.fromkeys(made, key),
        headers,
        without_output=not words,
        seconds=1.0,
        peak_memory_bytes=1000,
    )


@lru_cache(maxsize=10_000)
def header_facts(present: tuple[tuple[str, str], ...], absent: frozenset[str]) -> HeaderFacts:
    """One object per set."""
    return HeaderFacts(f"{present} {sorted(absent)}", dict(present), absent)


def same_result(one: CompileFacts, other: CompileFacts) -> bool:
    """Return True if two results agree on a unit."""
    return replace(one, from_store=False, finished_at=0.0) == replace(other, from_store=False, finished_at=0.0)


def _message(severity: Severity, source: Source, message: str, place: Span) -> Diagnostic:
    return Diagnostic(severity, source, f"{source}/x", message, place)
