"""What the documentation says about a code: a section, or the rows of its tables that name it."""

from __future__ import annotations

import pytest

from ckwatch.model.documentation import explanation, page_of, section

PAGE = """\
# Verifying

Text.

## What is found

| code | says |
|---|---|
| `verify/race` | two waves |
| `out-of-bounds` | an access |

```toml
## What is found
```

### More

Deep.

## Next
"""


def test_a_section_ends_with_the_next_heading_of_its_level() -> None:
    assert section(PAGE, "what-is-found") == PAGE.partition("Text.\n\n")[2].partition("\n\n## Next")[0]
    assert section(PAGE, "more") == "### More\n\nDeep."
    assert section(PAGE, "nowhere") == ""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("verify/race", "## What is found\n| `verify/race` | two waves |"),
        ("verify/out-of-bounds", "## What is found\n| `out-of-bounds` | an access |"),
        ("verify/other", section(PAGE, "what-is-found")),
        ("rule/none", None),
        ("clang/undeclared_var_use", None),
    ],
)
def test_a_code_is_explained_by_the_rows_that_name_it_or_the_section(code: str, said: str | None) -> None:
    assert explanation(code, lambda _name: PAGE) == said
    assert explanation(code, lambda _name: None) is None


def test_every_rule_has_a_section() -> None:
    assert page_of("rule/m-per-block") == "rules.md#m-per-block"
