"""The brace that is one too many, and the one that is not closed."""

from __future__ import annotations

import pytest

from ckwatch.checks.braces import stray_brace, unclosed_angle, unclosed_brace


@pytest.mark.parametrize(
    ("marked", "closed"),
    [
        ("f() {\n    a;\n    |}\n    b;\n}\n", True),
        ("f() {\n    if (a) {\n        b;\n    }\n    |}\n    c;\n}\n", True),
        ("f() {\n}\n|}\ng() {\n}\n", True),
        ("f() {\n  // }\n  s = \"}\"; /* } */ c = '}';\n}\n|}", True),
        ("struct S {\n    int a() { return 1; } |}\n};\nf() {\n}\n}\n", True),
        ("f() {\n    {\n    }\n  }\n", False),
        ("f() {\n    {\n}\n", False),
    ],
)
def test_stray_brace(marked: str, closed: bool) -> None:
    text = marked.replace("|", "")
    assert stray_brace(text) == (marked.index("|") if closed else None)


@pytest.mark.parametrize(
    ("marked", "found"),
    [
        ("f() {\n    if (a) |{\n        b;\n    c;\n}\ng() {\n}\n", True),
        ("f() {\n    while (a) {\n        if (b) |{\n            c;\n    }\n}\n", True),
        ("namespace {\nvoid f() |{\n    a;\n}  // namespace\nvoid g() {\n}\n", True),
        ("namespace\n{\nf() {\n}\nstatic g() |{\n    a;\nstatic h() {\n}\n}\n", True),
        ("namespace |{\nf() {\n}\nextern int g() {\n}\n", True),
        ("#if A\nf() {\n#else\nf(int) {\n#endif\n}\n", False),
        ("f() {\n}\n}\n", False),
        ("f() {\n  {\n    }\n}\n", False),
    ],
)
def test_unclosed_brace(marked: str, found: bool) -> None:
    text = marked.replace("|", "")
    assert unclosed_brace(text) == (marked.index("|") if found else None)


@pytest.mark.parametrize(
    ("marked", "found"),
    [
        ("using A = B<\n    /* a > b */ S|<1, 2,\n    S<3>,\n    4>", True),
        ("int a;\nusing A = B<\n    S<1,\n      2>,\n    4", False),
        ("using A = B<S<1>, 2", False),
        ("if (a < b) {\n    c->d<int>(e);\n    f<3", False),
    ],
)
def test_unclosed_angle(marked: str, found: bool) -> None:
    text = marked.replace("|", "")
    assert unclosed_angle(text, len(text)) == (marked.index("|") if found else None)
