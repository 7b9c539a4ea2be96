"""The vocabulary is what the hooks, the environment and the models say, and the pages describe the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ckwatch
from ckwatch.engine.queries import language_vocabulary
from ckwatch.engine.queries.language_templates import template_detail
from ckwatch.engine.queries.language_vocabulary import kernel_file_keys, settings_keys
from ckwatch.model.kernels import Instance, Kernel, Operation, Unit
from ckwatch.model.text import span
from ckwatch.render.environment import TemplateEnvironment
from ckwatch.render.hooks import KernelHooks
from ckwatch.render.renderer import context_of
from ckwatch.wire.language import KeyDescription, Word
from ckwatch.workspace.operations import KINDS
from ckwatch_templates import ROOT
from helpers.each_row import each_row

DOCS = Path(ckwatch.__file__).parents[2] / "docs"
PLACE = span("/k", 0, 0, 0, 0)
TENSORS = {"X", "W", "inv_scale_x", "inv_scale_w", "Bias", "Y"}


def by_name(words: tuple[Word, ...]) -> dict[str, Word]:
    return {word.name: word for word in words}


def test_hooks_are_those_of_the_page() -> None:
    page = (DOCS / "hooks.md").read_text().partition("## Hooks")[2].partition("## The exported")[0]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)\(", row)} == set(by_name(language_vocabulary.hooks()))


def test_a_hook_says_how_it_is_called() -> None:
    hooks = by_name(language_vocabulary.hooks())
    assert hooks["size"].signature == "size(tensor, start, end=none, default_value=0)"
    assert [(one.name, one.default) for one in hooks["size"].parameters] == [
        ("tensor", None), ("start", None), ("end", "none"), ("default_value", "0"),
    ]  # fmt: skip
    assert hooks["layout"].doc == "CK's name of the layout: `Row`, `Col`, of a convolution's tensor `NHWGC`."
    assert hooks["header"].signature == "header(family=none)"


def test_filters_and_tests_are_the_environments() -> None:
    environment = TemplateEnvironment(())
    filters, tests = by_name(language_vocabulary.filters()), by_name(language_vocabulary.tests())
    assert set(filters) == set(environment.filters)
    assert set(tests) == {name for name in environment.tests if name.isidentifier()}
    assert filters["join"].signature == 'join(d="", attribute=none)'
    assert filters["upper"].signature == "upper"
    assert "```" in filters["dictsort"].doc
    assert all(word.doc for word in (*filters.values(), *tests.values()))
    assert not [word.name for word in (*filters.values(), *tests.values()) if ".. " in word.doc or ":param" in word.doc]
    assert tests["divisibleby"].signature == "divisibleby(num)"


def test_tags_are_the_environments() -> None:
    assert set(language_vocabulary.TAGS) == set(language_vocabulary.known_tags())
    assert {"do", "break", "continue", "for", "raw"} <= set(by_name(language_vocabulary.tags()))


def test_variables_are_those_that_templates_get() -> None:
    operation = Operation("custom", (), (), "f32", (), ())
    kernel = Kernel("k", "/k", "k.hip.j2", PLACE, operation, {}, (), (), ())
    unit = Unit(kernel, Instance("i", {}, PLACE, {}), "gfx942")
    given = set(context_of(unit, KernelHooks(operation, {}, "hip", lambda name: name)))
    assert set(language_vocabulary.VARIABLES) == (given - set(by_name(language_vocabulary.hooks()))) | {
        name for kind in KINDS.values() for name in kind.tensors
    }
    page = (DOCS / "hooks.md").read_text().partition("## Variables")[2].partition("\n## ")[0]
    named = {
        name
        for line in page.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert named == set(language_vocabulary.VARIABLES)
    everywhere = by_name(language_vocabulary.global_names())
    assert set(everywhere) == {
        *TemplateEnvironment(()).globals,
        *language_vocabulary.VARIABLES,
        *language_vocabulary.BLOCK_WORDS,
    }
    assert "`index0`" in everywhere["loop"].doc


def plain(text: str) -> str:
    """Without links."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).strip()


def rows(page: str, begin: str, end: str) -> Iterator[list[str]]:
    """The rows of the tables between two headings."""
    for line in page.partition(begin)[2].partition(end)[0].splitlines():
        if line.startswith("| `"):
            yield [plain(cell.replace("\0", "|")) for cell in line.replace("\\|", "\0").strip("|").split("|")]


def paths(keys: tuple[KeyDescription, ...]) -> set[str]:
    return {key.path for key in keys}


def test_settings_are_those_of_the_pages() -> None:
    described = {}
    for name, _type, _default, meaning in rows(
        (DOCS / "workspace.md").read_text(), "## `ckwatch.toml`", "## Kernel files"
    ):
        table, _, key = name.strip("`").partition("] ")
        described[f"{table.removeprefix('[')}.{key}"] = meaning
    assert described.pop("bench.…")
    for name, _default, meaning in rows((DOCS / "timing.md").read_text(), "## Settings", "## The worker"):
        described[f"bench.{name.strip('`')}"] = meaning
    assert described.pop("verify.…")
    for name, _default, meaning in rows((DOCS / "verifying.md").read_text(), "## Settings", "## Shapes"):
        described[f"verify.{name.strip('`')}"] = meaning
    keys = {key.path: key for key in settings_keys()}
    assert set(described) == {path for path in keys if "." in path and "*" not in path}
    for path, meaning in described.items():
        if path not in ("workspace.templates", "compile.flags", "compile.precompile"):  # they refer to other pages
            assert keys[path].doc == meaning, path


def section(page: str, kind: str) -> Iterator[list[str]]:
    """The rows of the tables of a kind's section."""
    begin = f'### `[operation]`, `kind = "{kind}"`'
    return rows(page, begin, re.search(r"\n(##.*)", page.partition(begin)[2])[1])  # type: ignore[index]


def test_keys_of_kernel_files_are_those_of_the_page() -> None:
    page = (DOCS / "workspace.md").read_text()
    keys = kernel_file_keys()
    gemm = {key.path for key in keys if key.when.get("operation.kind") == "gemm"}
    custom = {key.path for key in keys if key.when.get("operation.kind") == "custom"}
    top = {
        name
        for row in rows(page, "## Kernel files", '### `[operation]`, `kind = "gemm"`')
        for name in re.findall(r"\w+", row[0])
    }
    assert top == {
        path
        for path in paths(keys)
        if "." not in path and path not in ("operation", "shape", "defaults", "instance", "sweep")
    }
    found = set()
    for row in rows(page, '### `[operation]`, `kind = "gemm"`', '### `[operation]`, `kind = "batched_gemm"`'):
        for name in re.findall(r"`(\w+)`", row[0]):
            found.add(f"operation.{name}")
            inner = re.findall(r"`(\w+)`", row[3]) if row[1] == "table" and name != "settings" else []
            found |= {f"operation.{name}.{one}" for one in inner if one not in ("a", "false")}
            if name == "bias":
                found |= {f"operation.bias.{one}" for one in ("dtype", "layout", "same_as")}
    assert found == {path for path in gemm if path.startswith("operation.") and "*" not in path}
    more = section(page, "batched_gemm")
    batched = {key.path for key in keys if key.when.get("operation.kind") == "batched_gemm"}
    found -= {"operation.b.preshuffled"}
    assert found | {f"operation.{row[0].strip('`')}" for row in more} == {
        path for path in batched if path.startswith("operation.") and "*" not in path
    }
    convolution = {key.path for key in keys if key.when.get("operation.kind") == "grouped_convolution"}
    found = set()
    for row in section(page, "grouped_convolution"):
        inner = re.findall(r"`([a-z]+)`", row[3]) if row[1] == "table" and row[0] != "`settings`" else []
        names = re.findall(r"`(\w+)`", row[0])
        found |= {
            f"operation.{'.'.join(path)}" for name in names for path in ((name,), *((name, one) for one in inner))
        }
    assert found == {path for path in convolution if path.startswith("operation.") and "*" not in path}
    found = set()
    for row in section(page, "custom"):
        table = re.match(r"`\[\[(.*)\]\]`", row[0])
        if table:
            inner = re.findall(r"`(?:\w+ = )?(\w+)`", row[3].replace("absent = true", "absent"))
            found |= {table[1], *(f"{table[1]}.{name}" for name in inner)}
        else:
            found.add(f"operation.{row[0].strip('`')}")
    assert found == {path for path in custom if path.startswith("operation.") and "*" not in path}
    for kind in ("attention", "moe_gemm"):
        of_kind = {key.path for key in keys if key.when.get("operation.kind") == kind} - {"operation.kind"}
        found = {f"operation.{name}" for row in section(page, kind) for name in re.findall(r"`(\w+)`", row[0])}
        assert found == {path for path in of_kind if path.startswith("operation.")}
    sweep = {f"sweep.{row[0].strip('`')}" for row in rows(page, "| key of `[[sweep]]`", "    [[sweep]]")}
    assert sweep == {path for path in paths(keys) if path.startswith("sweep.") and "*" not in path}
    assert {f"shape.{name}" for kind in KINDS.values() for name in kind.shape_docs} <= paths(keys)
    assert {"shape.name", "shape.M", "shape.kBatch", "instance.name", "instance.*", "defaults.*"} <= paths(keys)


@pytest.mark.parametrize("keys", [settings_keys(), kernel_file_keys()], ids=["settings", "kernel file"])
def test_every_key_has_a_description(keys: tuple[KeyDescription, ...]) -> None:
    assert [key.path for key in keys if not key.doc] == []
    assert all(key.type for key in keys)


@each_row(
    ("path", "type_", "values", "default", "required"),
    [
        ("operation.kind", "string", tuple(f'"{kind}"' for kind in KINDS), "", True),
        ("operation.a.layout", "string", ('"row"', '"col"'), "", False),
        ("operation.bias.full", "true or false", ("true", "false"), "false", False),
        ("operation.alpha", "number", (), "1.0", False),
        ("shape.M", "integer", (), "", True),
        ("shape.LDA", "integer", (), "", False),
        ("shape.kBatch", "integer", (), "1", False),
        ("template", "string", (), "", True),
        ("flags", "array of strings", (), "[]", False),
        ("sweep.where", "string or array of strings", (), "", False),
        ("daemon.watcher", "string", ('"inotify"', '"watchfiles"'), '"watchfiles"', False),
        ("render.output_limit_bytes", "size", (), '"16 MiB"', False),
        ("compile.defines.*", "string or integer or true or false", (), "", False),
        ("bench.caches", "array of strings", ('"cold"', '"hot"'), '["cold", "hot"]', False),
    ],
)
def test_what_a_key_takes(path: str, type_: str, values: tuple[str, ...], default: str, required: bool) -> None:
    found = {key.path: key for key in (*settings_keys(), *kernel_file_keys())}[path]
    assert (found.type, found.values, found.default, found.required) == (type_, values, default, required)


@pytest.mark.parametrize(
    "name",
    [
        *("ck/gemm_universal.hip.j2", "ck/batched_gemm.hip.j2"),
        *("hip/gemm_tiled.hip.j2", "cpp/gemm_blocked.cpp.j2", "cutlass/gemm_universal.cu.j2"),
    ],
)
def test_shipped_templates_say_what_their_parameters_mean(name: str) -> None:
    found = template_detail(name, [ROOT], {}, TENSORS, ())
    assert found is not None
    assert found.missing == ()
    assert [one.name for one in found.parameters if not one.doc] == []
    page = "".join((DOCS / f"{one}.md").read_text() for one in ("templates", "templates-hip-cpp", "templates-cuda"))
    if not name.startswith("ck/"):
        assert [one.name for one in found.parameters if f"`{one.name}`" not in page] == []


def test_words_for_what_an_input_holds_are_offered() -> None:
    keys = {key.path: key for key in kernel_file_keys() if key.when.get("operation.kind") == "custom"}
    for path in ("operation.input.values", "operation.output.values"):
        assert {'"normal"', '"uniform(0, 1)"', '"permutation"', '"probabilities"', '"mask"'} <= set(keys[path].values)
    assert keys["operation.input.index"].type == "string or array of strings"
    assert keys["operation.limits.*.multiple"].type == "integer"
    assert keys["operation.output.in_out"].values == ("true", "false")
