"""The examples of docs/client.md do what the page says, on the workspace that it names."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import anyio
import pytest
from anyio import to_thread

import ckwatch.client
from benches.daemon_bench import Bench
from benches.gemm_bench import gemm_bench
from ckwatch.client import Client, blocking, connect
from ckwatch.client.cpp import CppClient
from ckwatch.model.errors import CkwatchError
from ckwatch.questions.endpoint import Endpoint

PAGE = Path(ckwatch.client.__file__).parents[3] / "docs/client.md"


@dataclass(frozen=True)
class Example:
    """A block of code, and the output that the page shows below it, if any."""

    line: int
    code: str
    output: str | None

    @property
    def is_program(self) -> bool:
        """True if it runs by itself, else inside the context of a client."""
        return "anyio.run" in self.code or "connect_sync" in self.code


def examples() -> list[Example]:
    """The page's blocks of code in their order."""
    page = PAGE.read_text()
    pattern = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)
    return [Example(page[: found.start()].count("\n") + 1, *found.groups()) for found in pattern.finditer(page)]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    made = gemm_bench(tmp_path_factory.mktemp("docs"))
    (made.root / "rocm-7.14/bin").mkdir(parents=True)
    return made


def connect_to(bench: Bench, *_path: str, **_options: Any) -> AbstractAsyncContextManager[Client]:
    """A client of a daemon with a scripted compiler."""
    return connect(bench.root, private=True, open_engine=lambda _root: bench.open())


@pytest.mark.parametrize("example", examples(), ids=lambda example: f"line {example.line}")
async def test_example(example: Example, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ckwatch.client, blocking):
        monkeypatch.setattr(module, "connect", partial(connect_to, bench))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if example.is_program:
            await to_thread.run_sync(exec, example.code, {})
        else:
            async with connect_to(bench) as client:
                await _run(example, client)
    if example.output is not None:
        assert printed.getvalue() == example.output


async def _run(example: Example, client: Client) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile("\n" * example.line + example.code, PAGE.name, "exec", flags)
    result = eval(code, {"ckwatch": client, "anyio": anyio, "CkwatchError": CkwatchError})  # noqa: S307  # our own page
    if inspect.isawaitable(result):
        await result


def test_every_method_is_on_the_page() -> None:
    members = [*inspect.getmembers(Client), *inspect.getmembers(CppClient)]
    methods = [
        name for name, found in members if isinstance(found, FunctionType | Endpoint) and not name.startswith("_")
    ]
    page = PAGE.read_text()
    assert [name for name in methods if not re.search(rf"\b{name}\b", page) and name != "leave"] == []
