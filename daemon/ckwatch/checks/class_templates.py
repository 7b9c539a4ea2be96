"""Class templates in C++ text: their parameters, and what a use has to say where a newer header has other ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from ckwatch.headers.declarations import CkParameter, class_templates, elements_of
from ckwatch.headers.masked_text import closing, masked

_USE = re.compile(r"\b([A-Za-z_]\w*)\s*<")


def used_templates(code: str) -> frozenset[str]:
    """The names in a masked text that a list of arguments may follow."""
    return frozenset(_USE.findall(code))


def declared_templates(texts: Iterable[str], names: Iterable[str]) -> dict[str, tuple[CkParameter, ...]]:
    """The parameters of those of the class templates that the texts of headers declare."""
    found: dict[str, tuple[CkParameter, ...]] = {}
    some = re.compile(rf"\b(?:struct|class)\s+({'|'.join(map(re.escape, sorted(names)))})\s*(?::(?!:)|\{{)")
    for text in texts:
        declared = set(some.findall(text)) - found.keys()
        code = masked(text) if declared else ""
        for name in declared:
            found.update((name, parameters) for parameters, _ in class_templates(code, name))
    return found


def rewritten_uses(
    code: str, before: Mapping[str, tuple[CkParameter, ...]], after: Mapping[str, tuple[CkParameter, ...]]
) -> list[str]:
    """Replacements in a masked text for its uses of templates whose parameters are others after than before, a
    sentence for each; nothing where the arguments that it gives mean the same."""
    found: dict[str, None] = {}
    for use in _USE.finditer(code):
        name, end = use[1], closing(code, use.end() - 1)
        old, new = before.get(name), after.get(name)
        if end < 0 or old is None or new is None or old == new:
            continue
        given = elements_of(code[use.end() : end])
        written = _arguments(given, old, new)
        if written != given and len(given) <= len(old):
            found[f"{_differences(name, old, new)}; write `{name}<{', '.join(written)}>`"] = None
    return list(found)


def _counterparts(old: Sequence[CkParameter], new: Sequence[CkParameter]) -> dict[int, int]:
    """The place in `old` of each parameter of `new` that was there: by name, else at the same place between others."""
    names, others = [one.name for one in old], [one.name for one in new]
    found = {at: names.index(name) for at, name in enumerate(others) if name in names}
    for kind, start, end, first, last in SequenceMatcher(None, names, others, autojunk=False).get_opcodes():
        if kind == "replace" and end - start == last - first:
            pairs = zip(range(start, end), range(first, last), strict=True)
            found |= {
                at: was
                for was, at in pairs
                if names[was] not in others and at not in found and old[was].kind == new[at].kind
            }
    return dict(sorted(found.items()))


def _arguments(given: Sequence[str], old: Sequence[CkParameter], new: Sequence[CkParameter]) -> list[str]:
    """The arguments for `new` that say what `given` says for `old`. What is new and has no default is named."""
    was = _counterparts(old, new)
    values = [given[was[at]] if at in was and was[at] < len(given) else None for at in range(len(new))]
    needed = [at for at, value in enumerate(values) if value is not None or (at not in was and new[at].default is None)]
    last = max(needed, default=-1)
    return [value or new[at].default or f"/* {new[at].name} */" for at, value in enumerate(values[: last + 1])]


def _differences(name: str, old: Sequence[CkParameter], new: Sequence[CkParameter]) -> str:
    was = _counterparts(old, new)
    gone = [f"`{one.name}`" for at, one in enumerate(old) if at not in was.values()]
    added = [f"`{one.name}`" for at, one in enumerate(new) if at not in was]
    words = [f"no longer has {' and '.join(gone)}"] if gone else []
    words += [f"has {' and '.join(added)} besides"] if added else []
    words += ["has its parameters in another order"] if list(was.values()) != sorted(was.values()) else []
    return f"`{name}` {' and '.join(words) or 'has other parameters'}"
