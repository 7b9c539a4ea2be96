"""Puts Inductor's text into the template that sets what Inductor would pass to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from ckwatch.cli.imports.template_strings import TemplateString
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.parameters import RESERVED

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")
_SET = re.compile(r"\{%-?\s*set\s+(\w+)")


@dataclass(frozen=True, slots=True)
class Base:
    """A template that Inductor's text can extend. `hint` is a part of the names of files and classes with such text;
    `blocks` are blocks for further strings of the class, by the strings' names."""

    template: str
    start: str
    hint: str
    blocks: Mapping[str, str] = field(hash=False)


BASES = (
    Base("inductor/ck_gemm.j2", "ck_gemm", "gemm", {}),
    Base("inductor/ck_conv.j2", "ck_conv", "conv", {}),
    Base(
        "inductor/ck_tile_gemm.j2",
        "ck_tile_gemm",
        "tile",
        {"template_definition": "instance_definition", "gemm_kernel_launch": "kernel_launch"},
    ),
)


def chosen_base(text: str, named: str, base_texts: Mapping[str, str]) -> Base | None:
    """The base that sets most of what `text` reads; None where none sets any of it.

    What several bases set says less. `named` are the names that the text comes with, which decide between equals, and
    `base_texts` the bases by name.
    """
    read = {word for tag in _TAG.findall(text) for word in _WORD.findall(tag)} - RESERVED
    given = {base: read & set(_SET.findall(base_texts[base.template])) for base in BASES}
    shared = Counter(word for words in given.values() for word in words)

    def fit(base: Base) -> tuple[float, int]:
        return sum(1 / shared[word] for word in given[base]), BASES.index(base) if base.hint in named.lower() else -1

    best = max(BASES, key=fit)
    return best if given[best] else None


def wrapped(text: str, base: Base | None, parts: Mapping[str, str]) -> str:
    """The template's text: `text` in the block of `base`, and `parts` in blocks of their own, each as it is."""
    if base is None:
        return text
    blocks = [*parts.items(), ("kernel", text)]
    body = "".join(f"{{% block {name} %}}\n{part}\n{{% endblock %}}" for name, part in blocks)
    return f'{{% extends "{base.template}" %}}' + ("" if parts else "\n") + body + "\n"


def parts_of(base: Base | None, chosen: TemplateString, strings: Sequence[TemplateString]) -> dict[str, TemplateString]:
    """The further strings of the class that `base` has blocks for, by the blocks, in their order."""
    found: dict[str, TemplateString] = {}
    for name, block in base.blocks.items() if base is not None else ():
        for one in strings:
            if one.text is not None and one.name.rpartition(".")[2] == name and one.name.startswith(f"{chosen.owner}."):
                found[block] = one
    return found
