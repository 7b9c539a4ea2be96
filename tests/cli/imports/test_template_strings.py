"""Template strings in Python source."""

from __future__ import annotations

import pytest

from ckwatch.cli.imports.template_strings import TemplateStringError, chosen_string, template_strings
from helpers.each_row import each_row

KERNEL = "{{kernel_definition}} {\\n}"
SOURCE = f'''
import os
from textwrap import dedent

raise SystemExit("this is never run")

HEADER = r"""{{{{headers}}}}
"""

class CKGemmTemplate(CKTemplate):
    """With {{{{ braces }}}} in its docstring."""

    gemm_template = r"""{KERNEL}"""

    standalone_runner_template: str = r"""{{% if true %}}int main() {{ }}{{% endif %}}"""
    plain = "no Jinja"

    def emit(self):
        if self.new:
            template_definition = """
    using {{{{name}}}};
"""
'''


def texts(source: str) -> dict[str, str | None]:
    return {one.name: one.text for one in template_strings(source)}


def test_strings_are_found_at_every_level() -> None:
    found = template_strings(SOURCE)
    assert [(one.name, one.line) for one in found] == [
        ("HEADER", 7),
        ("CKGemmTemplate.gemm_template", 13),
        ("CKGemmTemplate.standalone_runner_template", 15),
        ("CKGemmTemplate.emit.template_definition", 20),
    ]
    assert found[1].text == KERNEL
    assert found[1].owner == "CKGemmTemplate"
    assert [one.has_kernel for one in found] == [False, True, False, False]


@each_row(
    ("expression", "text"),
    [
        (r'r"""{{ a }}\n"""', "{{ a }}\\n"),
        (r'"""{{ a }}\n"""', "{{ a }}\n"),
        ('"{{ a }}"\n    "{{ b }}"', "{{ a }}{{ b }}"),
        ('"{{ a }}" + "{{ b }}"', "{{ a }}{{ b }}"),
        ('dedent("""\\\n    {{ a }}\n      b\n    """)', "{{ a }}\n  b\n"),
        ('textwrap.dedent("""\n    {{ a }}\n""").strip()', "{{ a }}"),
        ('inspect.cleandoc("""\n    {{ a }}\n    b\n""")', "{{ a }}\nb"),
        ('jinja2.Template("{{ a }}")', "{{ a }}"),
        ('CKTemplate._template_from_string("{{ a }}" "b")', "{{ a }}b"),
        ('jinja2.Template("{{ a }}", trim_blocks=True)', None),
        ('HEAD + "{{ a }}"', "// head\n{{ a }}"),
        ('f"{{% x %}}" "{{ a }}"', "{% x %}{{ a }}"),
        ('"{{ a }}".format(1)', None),
        ('f"{os.sep}" "{{ a }}"', None),
        ('HEAD_OF_ANOTHER_MODULE + "{{ a }}"', None),
        ('["{{ a }}"]', None),
    ],
)
def test_expressions_that_are_always_the_same_string(expression: str, text: str | None) -> None:
    assert texts(f'HEAD = "// head\\n"\nTEMPLATE = ({expression})\n') == {"TEMPLATE": text}


def test_a_name_that_stands_for_something_else_by_now_is_not_known() -> None:
    source = 'A = "// a"\nA = os.getcwd()\nT = A + "{{ a }}"\nB = C = "{{ b }}"\n'
    assert texts(source) == {"T": None, "B": "{{ b }}", "C": "{{ b }}"}


def test_the_string_with_the_kernel_is_chosen() -> None:
    strings = template_strings(SOURCE)
    assert chosen_string(strings, None).name == "CKGemmTemplate.gemm_template"
    assert chosen_string(strings, "standalone_runner_template").line == 15
    assert chosen_string(strings, "CKGemmTemplate.gemm_template").line == 13
    assert chosen_string(strings[:1], None).name == "HEADER"


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ("x = 1", None, "no name is assigned a string with Jinja"),
        ("x = 1", "x", "no string with Jinja is called `x`; there are: none"),
        (SOURCE, "gemm_templat", "did you mean `gemm_template`? there are: HEADER (line 7), CKGemmTemplate.gemm"),
        (SOURCE.replace(KERNEL, "{{x}}"), None, "several strings with Jinja; choose one by --name: HEADER (line 7), "),
        ('class A:\n  t = "{{a}}"\nclass B:\n  t = "{{b}}"', "t", "by --name: A.t (line 2), B.t (line 4)"),
    ],
)
def test_why_none_is_chosen(source: str, name: str | None, words: str) -> None:
    with pytest.raises(TemplateStringError) as raised:
        chosen_string(template_strings(source), name)
    assert words in str(raised.value)


def test_a_string_that_is_worked_out_is_refused_at_its_line() -> None:
    with pytest.raises(TemplateStringError, match="`T` is worked out when the program runs") as raised:
        chosen_string(template_strings('\nT = "{{ a }}".format(1)'), None)
    assert raised.value.line == 2


@pytest.mark.parametrize(("source", "line"), [("x = 1\ndef f(:\n", 2), ("x = '\0'", 0)])
def test_errors_of_syntax_have_a_line(source: str, line: int) -> None:
    with pytest.raises(TemplateStringError, match="this is not Python") as raised:
        template_strings(source)
    assert raised.value.line in (line, 1)
