"""Which headers a compile read.

clang's `-MD` file is no answer: of the device and the host pass of one call, the one that ends last overwrites it,
and after an error there is none. `CC_PRINT_HEADERS_FILE` is appended to by every pass, as headers are opened, also
when the compile fails. Both are read here; the dependency list that is kept is written anew from their union.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from ckwatch.system.user_files import SIDE_FILE_LIMIT_BYTES, read_file

_RULE = re.compile(r"(?:[^\\:]|\\.|:(?![\s\\]))*:(?=[\s\\]|$)", re.DOTALL)
_ITEM = re.compile(r"(?:\\[ #\\]|\$\$|\\(?![\r\n])|[^\s\\$]|\$)+")
INCLUDED = re.compile(r'^\s*#\s*include\s*(?:(["<])([^">]+))?', re.MULTILINE)
"""How a header is included, and its name; both are empty where a macro says it."""

_MISSING = re.compile(r"^(?:(?P<folder>/[^\n:]*)/)?[^\n]*fatal error: '(?P<name>[^'\n]+)' file not found", re.MULTILINE)


def parse_dependency_file(text: str) -> list[str]:
    r"""The prerequisites in a dependency file as clang writes it for make: `\ `, `\#` and `$$` stand for themselves."""
    found: list[str] = []
    for rule in re.split(r"(?<!\\)\r?\n(?=\S)", text.strip()):
        target = _RULE.match(rule)
        if target is not None:
            found += [_unescape(item) for item in _ITEM.findall(rule[target.end() :])]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=8)
def format_dependency_file(target: str, headers: tuple[str, ...]) -> str:
    """A make rule: `target` depends on `headers`."""
    return " \\\n  ".join([f"{_escape(target)}:", *map(_escape, headers)]) + "\n"


def parse_header_list(text: str) -> list[str]:
    """The paths in a `CC_PRINT_HEADERS_FILE`, one a line, without repeats."""
    return list(dict.fromkeys(line for line in text.split("\n") if line))


def opens_again(text: str, header_list: str, own: Sequence[Path]) -> bool:
    """Return True if a header that `text` includes in quotes, or from its `own` folders, was opened more than once: it
    has no guard, and may mean something else when it is read once more."""
    times = Counter(header_list.split("\n"))
    folders = tuple(f"{folder}/" for folder in own)
    for quoted, name in set(INCLUDED.findall(text)):
        opened = [path for path, count in times.items() if count > 1 and f"/{path}".endswith(f"/{name}")]
        if any(quoted == '"' or path.startswith(folders) for path in opened):
            return True
    return False


def missing_headers(log: str) -> list[str]:
    """The names of headers that a compile asked for and did not find, and their paths beside what includes them."""
    found: dict[str, None] = {}
    for match in _MISSING.finditer(log):
        found[match["name"]] = None
        if match["folder"]:
            found[f"{match['folder']}/{match['name']}"] = None
    return list(found)


def read_headers(folder: Path, dependency_file: str, header_list: str) -> tuple[str, ...]:
    """The headers of the compile that ran in `folder`, as absolute paths, those in `folder` itself left out."""
    texts = [b"", b""]
    for index, file in enumerate((dependency_file, header_list)):
        with suppress(FileNotFoundError):
            texts[index] = read_file(f"{folder}/{file}", SIDE_FILE_LIMIT_BYTES)
    names, absolute = _sorted_names(*texts)
    if absolute and not any(os.fsencode(folder) in text for text in texts):
        return names
    return tuple(sorted(outside(names, folder)))


@lru_cache(maxsize=8)
def _sorted_names(dependency_file: bytes, header_list: bytes) -> tuple[tuple[str, ...], bool]:
    """Return the names in both files, and True if all are absolute paths: a thousand compiles of one kernel name the
    same."""
    dependencies, headers = os.fsdecode(dependency_file), os.fsdecode(header_list)
    names = tuple(sorted({*parse_dependency_file(dependencies), *parse_header_list(headers)}))
    return names, all(name.startswith("/") for name in names)


def outside(names: Iterable[str], folder: Path) -> set[str]:
    """Return the absolute paths that a compile in `folder` has named, without those in `folder` itself."""
    here = {f"{folder}/", f"{folder.resolve()}/"}
    paths = (name if name.startswith("/") else f"{folder}/{name.removeprefix('./')}" for name in names)
    return {path for path in paths if not any(path.startswith(prefix) for prefix in here)}


def _unescape(item: str) -> str:
    return re.sub(r"\\([ #\\])|\$\$", lambda match: match[1] or "$", item)


def _escape(path: str) -> str:
    return re.sub(r"(\\*)([ #])", r"\1\1\\\2", path).replace("$", "$$")
