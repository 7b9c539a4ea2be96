"""Attempts to leave the sandbox of templates, put together by chance, and templates that want too much.

An attempt is found when a template holds a value it must not have (a class, a module, a frame, the environment …), when
such a value is in what it prints or in a message, when a file outside of the template folders is opened or a process
started, and when the next template sees something of it.
"""

from __future__ import annotations

import copy
import os
import random
import re
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from jinja2 import BaseLoader, Undefined
from jinja2.environment import Environment, Template
from jinja2.runtime import Context
from jinja2.utils import Cycler, Joiner, Namespace

import ckwatch_templates
from ckwatch.model.kernels import Unit
from ckwatch.render.environment import TemplateEnvironment
from ckwatch.render.hooks import KernelHooks
from ckwatch.render.outcome import RenderLimits, RenderOutcome
from ckwatch.render.renderer import Renderer
from fakes.own_renders import RealRenders
from fakes.patience import PATIENCE_S
from helpers.units import unit
from torture.bystander import peak_memory_kib
from torture.rounds import Rounds

SECRET = "the-secret-behind-the-wall"
GOOD = "{{ header('hip') | length }} {{ MPerBlock }} {{ operation.settings }} {{ parameters }} {{ X.dtype }} {{ range(3) | list }}"
BOMB_EVERY = 12
BOMB_LIMIT_S = 1.0
MEMORY_LIMIT_KIB = 1_500_000
"""Of the process that asks for renders; the worker has a limit of its own."""

OBJECTS = (
    *("''", "'a{}'", "()", "[]", "{}", "1", "1.5", "true", "none", "range", "dict", "lipsum", "cycler", "joiner", "namespace"),
    *("range(2)", "cycler(1)", "joiner()", "namespace(a=1)", "dict(a=1)", "self", "self.b", "self.b()", "loop", "caller", "m"),
    *("m.f", "mac", "mac('a')", "kernel", "kernel.header", "header", "globals", "def_kernel", "size_args()", "runtime_args()"),
    *("X", "operation", "operation.settings", "parameters", "X.sizes", "arch", "nothing", "captured", "input_reorder"),
    *("[1] | map('string')", "[1] | batch(1)", "{'a': 1}.items()", "''.join", "''.format", "captured.format", "'' | e"),
    *("'' | forceescape", "('a' | e).format", "captured.split", "[].append", "loop.cycle", "varargs", "kwargs", "self.b.super"),
)  # fmt: skip
ATTRIBUTES = (
    *("__class__", "__mro__", "__base__", "__bases__", "__subclasses__", "__init__", "__globals__", "__builtins__", "__dict__"),
    *("__self__", "__func__", "__code__", "__closure__", "__module__", "__doc__", "__getattribute__", "__reduce_ex__"),
    *("__import__", "__loader__", "__spec__", "__wrapped__", "__call__", "__getitem__", "__format__", "__slots__"),
    *("func_globals", "f_globals", "f_back", "f_locals", "f_builtins", "gi_frame", "gi_code", "ag_frame", "cr_frame", "tb_frame"),
    *("mro", "_function", "_operation", "_include", "_parameters", "_environment", "_func", "_TemplateReference__context"),
    *("_BlockReference__context", "_context", "environment", "eval_ctx", "name", "super", "blocks", "globals", "parent", "vars"),
    *("origins", "site", "_body_stream", "__name__", "format", "format_map", "items", "keys", "update", "append", "clear", "pop"),
    *("__setattr__", "__delattr__", "__replace__", "__class_getitem__", "__init_subclass__", "__annotations__", "throw", "send"),
    *("__iter__", "__next__", "__length_hint__", "__setstate__", "__html__", "__html_format__", "maketrans", "from_bytes", "encode"),
)  # fmt: skip
NAMES = (
    *(*["../secret.j2"] * 6, "hooks/../../secret.j2", "m.j2/../../secret.j2", "..\\secret.j2", "./../secret.j2", "a/../../secret.j2", "hooks/../../secret.j2", "/etc/passwd"),
    *("//etc/passwd", "%2e%2e/secret.j2", "..%2fsecret.j2", "\\0../secret.j2", "../secret.j2\\0", "file:///etc/passwd", "~/x"),
    *("/proc/self/environ", "/proc/self/fd/0", "../" * 12 + "etc/passwd", ".../secret.j2", "..", ".", "", "/", "hooks", " ../secret.j2"),
    *("\uff0e\uff0e/secret.j2", "\u2025/secret.j2", "..\u2215secret.j2", "a" * 5000, "a/" * 2000, "\\ud800", "m.j2/../../secret.j2"),
)  # fmt: skip
TAGS = (
    "{{% include {} %}}",
    "{{% include [{}, 'm.j2'] ignore missing %}}",
    "{{% extends {} %}}",
    "{{% import {} as z %}}{{{{ z }}}}",
    "{{% from {} import f %}}",
    "{{{{ header({}) }}}}",
    "{{{{ globals({}) }}}}",
)
FILTERS = (
    *("list", "string", "tojson", "pprint", "xmlattr", "e", "safe", "first", "last", "length", "join", "join(captured)", "upper"),
    *("dictsort", "items", "reverse", "random", "urlize", "striptags", "title", "default('x', true)", "batch(2)", "slice(2)"),
    *("map('attr', '{0}')", "map(attribute='{0}')", "selectattr('{0}')", "rejectattr('{0}', 'defined')", "groupby('{0}')"),
    *("sort(attribute='{0}')", "unique(attribute='{0}')", "sum(attribute='{0}')", "min(attribute='{0}')", "join(attribute='{0}')"),
    *("map('format', '%s')", "format('{0}')", "attr('{0}')", "map('map', attribute='{0}')", "select('callable')", "replace('a', '{0}')"),
    *("filesizeformat", "wordwrap(3)", "indent(2)", "truncate(5)", "center(9)", "trim", "int", "float", "round", "abs", "urlencode"),
)  # fmt: skip
FORMATS = (
    *("{{0.{}}}", "{{0[{}]}}", "{{0.{}.__globals__}}", "{{a.{}}}", "{{0:{{1.{}}}}}", "{{0!r:{}}}", "{{.{}}}", "%({})s"),
)
CALLS = (*("()", "(1)", "('os')", "('{0.__class__}')", "(X)", "(captured)", "(**{'{0}': 1})", "(*[X, X])", "(self)"),)

REACHED = (
    *(
        types.ModuleType,
        types.CodeType,
        types.FrameType,
        types.TracebackType,
        types.FunctionType,
        Environment,
        Template,
    ),
    *(Context, BaseLoader, Renderer, KernelHooks, Path, types.CellType, types.MappingProxyType),
)
KNOWN = (range, dict, Cycler, Joiner, Namespace)
LEAK = re.compile(rf"{SECRET}|root:x:|PATH=")
EVENTS = re.compile(
    r"os\.(?!listdir|scandir|putenv)|subprocess\.|socket\.|ctypes\.|shutil\.|pty\.|webbrowser|winreg|tempfile\."
)


class Watched(TemplateEnvironment):
    """Notes what templates hold that they must not."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.reached: list[str] = []
        super().__init__(folders)
        self.lawful = {id(value) for value in self.globals.values()}

    def note(self, how: str, value: Any) -> Any:
        """Note `value` if it is none for templates."""
        if isinstance(value, Undefined):
            return value
        unlawful = isinstance(value, REACHED) or (isinstance(value, type) and value not in KNOWN)
        formatter = getattr(value, "__wrapped__", None)  # the sandbox's own `format` of a text
        if unlawful and not isinstance(getattr(formatter, "__self__", None), str) and id(value) not in self.lawful:
            self.reached.append(f"{how} is {value!r:.200}")
        return value

    def getattr(self, obj: Any, attribute: str) -> Any:
        found = super().getattr(obj, attribute)
        harmless = isinstance(found, Undefined | types.GenericAlias) or isinstance(obj, dict)  # also `dict['a']`
        formats = isinstance(getattr(found, "__wrapped__", None), types.MethodType | types.BuiltinMethodType)
        if attribute.startswith("_") and not formats and not harmless:
            self.reached.append(f"attribute {attribute} of {obj!r:.200}")
        return self.note(f"attribute {attribute}", found)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return self.note(f"element {argument!r:.99}", super().getitem(obj, argument))

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        for value in (obj, *args, *kwargs.values()):
            self.note("an argument", value)
        return self.note(f"result of {obj!r:.99}", super().call(context, obj, *args, **kwargs))


class Auditor:
    """Notes what this process does to the world while `folders` is set: reads elsewhere, writes, processes, sockets."""

    def __init__(self) -> None:
        self.folders: tuple[str, ...] = ()
        self.noted: list[str] = []
        sys.addaudithook(self.take)

    def take(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Called by the interpreter."""
        if not self.folders:
            return
        if event == "open":
            path, mode, flags = (*arguments, None, None)[:3]
            writes = (isinstance(mode, str) and bool(set(mode) & set("wax+"))) or (isinstance(flags, int) and flags & 3)
            allowed = isinstance(path, int) or os.path.normpath(os.fsdecode(path)).startswith(self.folders)
            if writes or not allowed:
                self.noted.append(f"open {path!r} {mode} {flags}")
        elif EVENTS.match(event):
            self.noted.append(f"{event} {arguments!r:.200}")


_auditor: list[Auditor] = []
"""One for this process: it cannot be taken out again."""


class Attempts:
    """Makes templates."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def name(self) -> str:
        """An attribute."""
        return self.chance.choice(ATTRIBUTES)

    def written(self, text: str) -> str:
        """`text` as an expression, in one of many ways."""
        at = self.chance.randrange(len(text) + 1)
        ways = (
            f"'{text}'",
            "'" + "".join(f"\\x{ord(one):02x}" if one.isascii() else one for one in text) + "'",
            f"('{text[:at]}' ~ '{text[at:]}')",
            f"('{text[:at]}' + '{text[at:]}')",
            f"['{text[:at]}', '{text[at:]}'] | join",
            f"('%s%s' % ('{text[:at]}', '{text[at:]}'))",
            f"('{text[::-1]}' | reverse)",
            f"'{text}'[:]",
            f"('{text.swapcase()}'.swapcase())",
            f"dict({text}=1) | first" if text.isidentifier() else f"'{text}'",
            f"(captured[:0] ~ '{text}')",
        )
        return self.chance.choice(ways)

    def expression(self, depth: int = 0) -> str:
        """Return the objects reached from one in some steps."""
        chance = self.chance
        text = chance.choice(OBJECTS)
        if chance.random() < 0.3:
            text = f"({text})"
        for _ in range(chance.choice((1, 1, 2, 2, 3, 4))):
            match chance.randrange(9):
                case 0 | 1:
                    text = f"({text}).{self.name()}"
                case 2:
                    text = f"({text})[{self.written(self.name())}]"
                case 3:
                    text = f"({text}) | attr({self.written(self.name())})"
                case 4:
                    text = f"({text}) | {chance.choice(FILTERS).replace('{0}', self.name())}"
                case 5:
                    text = f"[{text}] | {chance.choice(FILTERS).replace('{0}', self.name())}"
                case 6:
                    form = chance.choice(FORMATS).format(self.name())
                    how = chance.choice(
                        (".format({0}, {0}, a={0})", ".format_map({{'a': {0}, '0': {0}}})", " | format({0})", " % {0}")
                    )
                    text = f"{self.written(form)}{how.format(text)}"
                case 7:
                    text = f"({text}){chance.choice(CALLS).replace('{0}', self.name())}"
                case _:
                    inner = self.expression(depth + 1) if depth < 2 else "1"
                    text = chance.choice(
                        (f"({text})[{inner}]", f"({text}) ~ ({inner})", f"({text}) if ({inner}) else 2")
                    )
        return text

    def statement(self) -> str:
        """One tag."""
        chance = self.chance
        match chance.randrange(11):
            case 0:
                return "{% set ns = namespace() %}{% set ns." + self.name() + " = " + self.expression() + " %}{{ ns }}"
            case 1:
                return "{% for a in " + self.expression() + " %}{{ a }}{{ loop." + self.name() + " }}{% endfor %}"
            case 2 | 3:
                return chance.choice(TAGS).format(self.written(chance.choice(NAMES)))
            case 4:
                return chance.choice(TAGS).format(self.expression())
            case 5:
                return "{% do " + self.expression() + " %}"
            case 6:
                return "{% call mac(" + self.expression() + ") %}{{ " + self.expression() + " }}{% endcall %}"
            case 7:
                return "{% with range = " + self.expression() + ", X = 1 %}{{ range }}{% endwith %}"
            case 8:
                form = chance.choice(FORMATS).format(self.name())
                return "{% set t %}" + form + "{% endset %}{{ t.format(" + self.expression() + ", X) }}{{ t % X }}"
            case _:
                return "{{ " + self.expression() + " }}"

    def template(self) -> str:
        """A whole template."""
        head = "{% set captured %}a{0.__class__} {% endset %}{% import 'm.j2' as m %}{% macro mac(x) %}{{ x }}"
        head += "{{ caller() if caller else varargs }}{{ kwargs }}{% endmacro %}{% block b %}b{% endblock %}"
        lines = [self.statement() for _ in range(self.chance.choice((1, 1, 1, 2, 3)))]
        if self.chance.random() < 0.3:
            lines = ["{% for q in [1, 2] %}", *lines, "{% endfor %}"]
        return head + "\n".join(lines)

    def bomb(self) -> str:
        """A template that needs too much time or memory, or prints too much."""
        chance = self.chance
        number = chance.choice(("9", "999", "99999", "9999999", "9000000000", "10 ** 30", "-1", "2 ** 63"))
        text = chance.choice(("'x'", "captured", "('x' * 9999999)", "(captured * 99999)", "'é\n' * 999999", "X.name"))
        expressions = (
            f"{text} * {number}", f"{text} | center({number})", f"[{text}] * {number}", f"{number} ** {number}",
            f"{text} | wordwrap({number})", f"{text} | indent({number})", f"({text} | list) * 3 | join({text})",
            f"'%{number.replace(' ', '')}d' % 1", f"'%.*f' % ({number}, 1.5)", f"'{{:{number.replace(' ', '')}}}'.format(1)",
            f"{text}.ljust({number})", f"{text}.zfill({number})", f"{text}.replace('', {text})", f"{text} | replace('', {text})",
            f"{text}.expandtabs({number})", f"range({number}) | list", f"range({number}) | sum", f"lipsum({number})",
            f"(1).to_bytes({number}, 'big')", f"{text}.encode() * {number}", f"'9' * {number} | int", f"[1] | batch({number}, 0) | list",
            f"range(99999) | slice({number}) | list", "(range(9999) | list) * 99 | sort | unique | list | length",
            f"{text} | urlize", f"{text} | striptags | title | wordcount", f"{text} | tojson | pprint", f"{text}.join([{text}] * 99)",
            f"{text}.translate({{120: {text}}})", f"(1 << {number})", "[[[[]] * 9999] * 9999] | pprint", f"{text} | truncate({number})",
            f"{text} | filesizeformat(1) | e", f"{text} | round({number})", f"1.5 | round({number})", f"{number} // 7 % 3 ** 9",
        )  # fmt: skip
        body = "{% set x = " + chance.choice(expressions) + " %}"
        if chance.random() < 0.5:
            body += "{{ x }}"
        match chance.randrange(7):
            case 0:
                body = "{% for i in range(99999) %}" + body + "{% endfor %}"
            case 1:
                body = (
                    "{% for i in range(99999) %}{% for j in range(99999) %}" + body + "{{ j }}{% endfor %}{% endfor %}"
                )
            case 2:
                body = "{% macro g(n) %}" + body + "{{ g(n + 1) }}{{ g(n) }}{% endmacro %}{{ g(0) }}"
            case 3:
                body = "{% set t %}" + body + "{% endset %}" + "{% set t %}{{ t }}{{ t }}{% endset %}" * 40 + "{{ t }}"
            case 4:
                body = "{{ " + "(" * chance.choice((50, 500, 50_000)) + "1" + " }}" + body
            case 5:
                body = "{% if true %}" * chance.choice((10, 300, 20_000)) + body
            case _:
                pass
        return "{% set captured %}a\nb {{ MPerBlock }}{% endset %}" + body


def run(rounds: Rounds) -> None:
    """Until its time is over."""
    outside = rounds.folder / "templates"
    folder = outside / "inside"
    folder.mkdir(parents=True)
    (outside / "secret.j2").write_text(SECRET)
    (folder / "m.j2").write_text("{% macro f(a) %}{{ a }}{% endmacro %}{% set value = 1 %}")
    (folder / "good.hip.j2").write_text(GOOD)
    if not _auditor:
        _auditor.append(Auditor())
    renderer = Renderer((folder, ckwatch_templates.ROOT))
    watched = renderer._environment = Watched((folder, ckwatch_templates.ROOT))
    expected = renderer.render(made("good.hip.j2")).rendered
    assert expected is not None
    lawful = (
        *(str(folder), str(ckwatch_templates.ROOT), sys.base_prefix, "/proc/self/mountinfo"),
        *filter(os.path.isabs, sys.path),
    )
    pool = RealRenders((folder, ckwatch_templates.ROOT))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(pool):
        for chance in rounds:
            with rounds.watched():
                if rounds.number % BOMB_EVERY == BOMB_EVERY - 1:
                    explode(rounds, portal, pool, folder, Attempts(chance).bomb())
                    continue
                text = Attempts(chance).template()
                rounds.using(text)
                (folder / "t.hip.j2").write_bytes(text.encode())
                attacked = made("t.hip.j2")
                before = copy.deepcopy(attacked)
                watched.reached, _auditor[0].noted, _auditor[0].folders = [], [], lawful
                try:
                    outcome = renderer.render(attacked, RenderLimits(2.0, 1_000_000))
                finally:
                    _auditor[0].folders = ()
                assert not watched.reached, watched.reached
                assert not _auditor[0].noted, _auditor[0].noted
                check(outcome, folder)
                assert attacked == before, "the unit was changed"
                after = renderer.render(made("good.hip.j2"), RenderLimits(PATIENCE_S)).rendered
                assert after is not None
                assert after.text == expected.text, after.text


def made(template: str) -> Unit:
    """A unit with some parameters."""
    return unit(template, MPerBlock=128, Lengths=(4, 64, 1), Name="v3")


def check(outcome: RenderOutcome, folder: Path) -> None:
    """Nothing leaked, and what failed says so at a place."""
    texts = [one.message for one in outcome.diagnostics]
    texts += [related.message for one in outcome.diagnostics for related in one.related]
    texts += [fix.text for one in outcome.diagnostics for fix in one.fixes]
    if outcome.rendered is not None:
        texts.append(outcome.rendered.text)
    else:
        assert outcome.diagnostics
    for text in texts:
        leak = LEAK.search(text)
        assert leak is None, f"{leak[0]!r} is in {text[max(leak.start() - 80, 0) : leak.end() + 80]!r}"
    for path in outcome.read:
        assert path.startswith((str(folder), str(ckwatch_templates.ROOT))), path
        assert ".." not in Path(path).parts, path


def explode(rounds: Rounds, portal: BlockingPortal, pool: RealRenders, folder: Path, text: str) -> None:
    """Render it in a worker: it ends, takes no memory here, and the next render is right."""
    rounds.using(text)
    (folder / "b.hip.j2").write_bytes(text.encode())

    async def both() -> tuple[RenderOutcome, RenderOutcome]:
        with anyio.fail_after(PATIENCE_S):
            bad = await pool.render(made("b.hip.j2"), RenderLimits(BOMB_LIMIT_S))
            good = await pool.render(made("good.hip.j2"), RenderLimits(PATIENCE_S))
            return bad.outcome, good.outcome

    bad, good = portal.call(both)
    check(bad, folder)
    assert bad.rendered is not None or bad.diagnostics
    assert good.rendered is not None, good.diagnostics
    # not ru_maxrss, which has the peak of the process that started this one
    peak = peak_memory_kib(os.getpid())
    assert peak < MEMORY_LIMIT_KIB, f"{peak // 1024} MiB"
