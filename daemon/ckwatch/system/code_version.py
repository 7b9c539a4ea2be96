"""A version of some of this package's code: results are kept by that of the modules that make them.

It covers all that these import. No module is imported for that, and none parsed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ckwatch.system.user_files import read_file

PACKAGE = Path(__file__).parents[1]

_TYPE_CHECKING = re.compile(r"^if TYPE_CHECKING:.*\n(?:[ \t]+.*\n)+", re.MULTILINE)
_IMPORT = re.compile(
    r"^\s*(?:from (?P<module>[\w.]+) import (?P<names>\([^)]*\)|.*)|import (?P<plain>.*))", re.MULTILINE
)
_NAME = re.compile(r"[\w.]+")


def version_of(modules: Iterable[str], files: Iterable[Path] = (), package: Path = PACKAGE) -> str:
    """The version, in hex, of these modules of the package, of what they import of it, and of these other files.

    Blocks, call from a worker thread.
    """
    digest = hashlib.sha256()
    for name, text in (*sorted(_imported(modules, package).items()), *((one.name, _text(one)) for one in files)):
        for piece in (name.encode(), text.encode()):
            digest.update(b"%d:%s" % (len(piece), piece))
    return digest.hexdigest()


def imported_modules(modules: Iterable[str], package: Path = PACKAGE) -> list[str]:
    """The names of these modules of the package and of those that they import, in functions too."""
    return sorted(_imported(modules, package))


def _text(path: Path) -> str:
    return read_file(path).decode()


def _imported(modules: Iterable[str], package: Path) -> dict[str, str]:
    """The text of each module, by its name."""
    found: dict[str, str] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = _source_of(name, package)
        if name in found or path is None:
            continue
        found[name] = _text(path)
        parent = name.rpartition(".")[0]
        waiting += [*_imports(found[name]), *([parent] if "." in parent else [])]
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
