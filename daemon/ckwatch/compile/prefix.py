"""What of a source can be precompiled: its leading includes, and more where the template takes part in it.

A source that mentions WARM_UP promises that, with this macro defined, it defines no kernel and nothing under a name
that another source may define too, apart from names with `KERNEL_NAME` or `DEVICE_CODE_NAME` in them; and that it makes
the compiler instantiate the templates that it will need. Then it is put behind the includes of a precompiled header,
and a source that differs in some parameters finds most of its instantiations done. Where sources of one kernel have
little in common, a comment names the family: `// CKWATCH_WARM_UP: v3 Intrawave`.
"""

from __future__ import annotations

import re

WARM_UP = "CKWATCH_WARM_UP"
HASH_DIGITS = 12
"""At the end of names that `fingerprint.kernel_symbol` makes."""

_FAMILY = re.compile(rf"//\s*{WARM_UP}:[ \t]*(.*)")
_DIRECTIVE = re.compile(r"\s*#\s*(\w*)")
_OPENING = frozenset({"if", "ifdef", "ifndef"})
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*")


def include_prefix(source: str) -> str:
    """The leading lines of `source` up to its last include before any code, empty when there is none.

    They are blank lines, comments and directives, every condition closed.
    """
    lines = source.splitlines(keepends=True)
    end = depth = 0
    included = in_comment = continued = False
    for number, line in enumerate(lines, 1):
        if not continued:
            in_comment, rest = _code(line, in_comment=in_comment)
            directive = _DIRECTIVE.match(rest)
            if rest.strip() and directive is None:
                break
            word = "" if directive is None else directive[1]
            depth += (word in _OPENING) - (word == "endif")
            included = included or word == "include"
            if included and depth == 0 and word in ("include", "endif"):
                end = number
        continued = line.rstrip("\r\n").endswith("\\")
    return "".join(lines[:end])


def warm_text(prefix: str, source: str, symbol: str) -> str:
    """A precompiled header's text: the includes, and `source` under other names than its own."""
    # The function's name and that of the device code are made of the same words and a hash each.
    names = re.compile(rf"{re.escape(symbol[:-HASH_DIGITS])}[0-9a-f]{{{HASH_DIGITS}}}")
    renamed = names.sub(lambda match: f"{match[0]}_warm_up", source)
    return f"{prefix}#define {WARM_UP} 1\n{renamed}\n#undef {WARM_UP}\n"


def can_warm_up(source: str) -> bool:
    """Whether the template takes part."""
    return WARM_UP in source


def family_of(source: str) -> str:
    """Which sources of the same kernel `source` has most in common with."""
    named = _FAMILY.search(source)
    return "" if named is None else named[1].strip()


def _code(line: str, *, in_comment: bool) -> tuple[bool, str]:
    """Whether a comment is open behind `line`, and what of the line lies in none."""
    if in_comment:
        _, closed, line = line.partition("*/")
        if not closed:
            return True, ""
    rest = _COMMENTS.sub(" ", line)
    before, opened, _ = rest.partition("/*")
    return bool(opened), before
