"""A version of some of this package's code, which comments and docstrings do not change.

Results are kept by the version of the modules that make them, and of all that these import. No module is imported for
that, and none parsed: one regular expression finds the strings and comments of a source. `ast` takes four times as
long, and holds the interpreter's lock for whole files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ckwatch.system.user_files import read_file

PACKAGE = Path(__file__).parents[1]

PYTHON = re.compile(
    r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+"""'
    r"|'{3}[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*+'{3}"
    r'|"(?:\\.|[^"\\])*+"'
    r"|'(?:\\.|[^'\\])*+'"
    r"|\#[^\n]*+",
    re.DOTALL,
)
C = re.compile(r""""(?:\\.|[^"\\\n])*+"|'(?:\\.|[^'\\\n])*+'|//(?:\\\n|[^\n])*+|/\*.*?\*/""", re.DOTALL)
_BLANK = re.compile(r"\s+\n")
_TYPE_CHECKING = re.compile(r"^if TYPE_CHECKING:.*\n(?:[ \t]+.*\n)+", re.MULTILINE)
_IMPORT = re.compile(
    r"^\s*(?:from (?P<module>[\w.]+) import (?P<names>\([^)]*\)|.*)|import (?P<plain>.*))", re.MULTILINE
)
_NAME = re.compile(r"[\w.]+")


def version_of(modules: Iterable[str], files: Iterable[Path] = (), package: Path = PACKAGE) -> str:
    """The version, in hex, of these modules of the package, of what they import of it, and of these sources, in Python
    or C. Blocks, call from a worker thread."""
    sources = sorted(_imported(modules, package).items())
    sources += ((path.name, _without_remarks(path)) for path in files)
    digest = hashlib.sha256()
    for name, pieces in sources:
        for piece in (name, *pieces):
            digest.update(b"%d:%s" % (len(piece), piece.encode()))
    return digest.hexdigest()


def imported_modules(modules: Iterable[str], package: Path = PACKAGE) -> list[str]:
    """The names of these modules of the package and of those that they import, in functions too."""
    return sorted(_imported(modules, package))


def without_remarks(source: str, language: re.Pattern[str] = PYTHON) -> list[str]:
    """The pieces of a source, code and strings in turns, without comments, docstrings and blank lines."""
    pieces: list[str] = []
    code = ["\n"]
    end = depth = 0
    for token in language.finditer(source):
        before = source[end : token.start()]
        end = token.end()
        depth += sum(map(before.count, "([{")) - sum(map(before.count, ")]}"))
        if token[0][0] in "#/":
            code += [before, " "]
        elif language is PYTHON and not depth and _is_statement(source, token):
            code.append(before.removesuffix("r"))
        else:
            pieces += [_BLANK.sub("\n", "".join([*code, before])), token[0]]
            code = []
    return [*pieces, _BLANK.sub("\n", "".join([*code, source[end:]]))]


def _is_statement(source: str, string: re.Match[str]) -> bool:
    """Return True if a string outside of brackets is a statement of its own, which does nothing."""
    start = source.rfind("\n", 0, string.start()) + 1
    after = source[string.end() : source.find("\n", string.end())].lstrip(" \t")
    before = source[start : string.start()].strip(" \t")
    return before in ("", "r") and (not after or after[0] == "#") and source[max(start - 2, 0) : start] != "\\\n"


def _without_remarks(path: Path) -> list[str]:
    return without_remarks(read_file(path).decode(), PYTHON if path.suffix == ".py" else C)


def _imported(modules: Iterable[str], package: Path) -> dict[str, list[str]]:
    """The pieces of each module, by its name."""
    found: dict[str, list[str]] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = _source_of(name, package)
        if name in found or path is None:
            continue
        found[name] = _without_remarks(path)
        parent = name.rpartition(".")[0]
        waiting += [*_imports("".join(found[name][::2])), *([parent] if "." in parent else [])]
    return found


def _source_of(name: str, package: Path) -> Path | None:
    """The source of a module of the package; None for all others."""
    first, *rest = name.split(".")
    if first != package.name or not rest:
        return None
    path = package.joinpath(*rest)
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


def _imports(code: str) -> Iterator[str]:
    """The names of all modules that may be imported, and of what is no module but one's content."""
    for found in _IMPORT.finditer(_TYPE_CHECKING.sub("", code)):
        if found["module"] is None:
            yield from _NAME.findall(found["plain"])
            continue
        yield found["module"]
        yield from (f"{found['module']}.{name}" for name in _NAME.findall(found["names"]))
