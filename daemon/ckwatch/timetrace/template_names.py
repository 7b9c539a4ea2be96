"""The template of which something is an instance: its name without the arguments."""

from __future__ import annotations

import re

# What decides: brackets in an operator's name (`operator<<int>` is `<` with an argument, `operator<<<int>`
# is `<<` with one), literals, names that are in parentheses, arrows, and all other brackets.
_TOKEN = re.compile(
    r"(?P<operator>\boperator(?:<=>|<<=|>>=|->\*?|<<(?=<|\(|$)|>>|<=|>=|<|>|\(\)|\[\]))"
    r"|(?P<literal>'(?:\\.|[^'\\])+'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<named>(?:(?<=::)|^)\((?:lambda|anonymous|unnamed)\b)"
    r"|->|[<>()\[\]{}]"
)
_PAIRS = {"<": ">", "(": ")", "[": "]", "{": "}"}
_QUALIFIERS = re.compile(r" (?:const|volatile|&&?|noexcept)(?=::|$| )")


def template_name(name: str) -> str:
    """`ck::Tuple<int, X<2>>::At<1>` → `ck::Tuple::At`, `f<1>(int)::(lambda)::operator()<2>` → `f::(lambda)`.

    Parameters of functions around go as well. In parentheses angle brackets are no brackets: an argument may be
    `(a > b)`. What was cut off in the middle loses all that follows the open bracket.
    """
    kept: list[str] = []
    closing: list[str] = []
    begin = at = 0
    while (token := _TOKEN.search(name, at)) is not None:
        text, kind = token[0], token.lastgroup
        at = token.end()
        if closing:
            if text == closing[-1]:
                closing.pop()
                begin = at
            elif kind is None and text in _PAIRS and (text != "<" or closing[-1] == ">"):
                closing.append(_PAIRS[text])
            elif kind == "named":
                closing.append(")")
        elif kind == "named":
            # `(lambda at FILE:LINE:COLUMN)` is `(lambda)` in another place.
            end = name.find(")", at)
            at = end + 1 if end >= 0 else len(name)
            kept.append(f"{name[begin : token.start()]}{name[token.start() : at].partition(' at ')[0].rstrip(')')})")
            begin = at
        elif kind is None and text in ("<", "("):
            kept.append(name[begin : token.start()])
            closing.append(_PAIRS[text])
    if not closing:
        kept.append(name[begin:])
    plain = "".join(kept)
    if ")" in name:
        plain = _QUALIFIERS.sub("", plain).replace("(lambda)::operator()", "(lambda)")
    return plain
