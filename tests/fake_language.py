"""Answers about the language in memory: what is asked is noted in the engine's list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ckwatch.model.errors import CkwatchError
from ckwatch.wire.cpp import CppAnswer, CppRequest
from ckwatch.wire.language import (
    KeyDescription,
    ParameterDetail,
    ParameterValue,
    TemplateDetail,
    TemplateName,
    ValuesRequest,
    Vocabulary,
    Word,
    WordParameter,
)

NAME = "k.hip.j2"
HOVER = {"contents": {"kind": "markdown", "value": "`int`"}, "produced": "", "others": []}


class FakeLanguage:
    """Fits `ckwatch.server.engine_api.LanguageEngine`; `ask` notes a call and raises what a test wants raised."""

    def __init__(self, ask: Callable[..., None]) -> None:
        self._ask = ask
        size = Word(name="size", signature="size(tensor)", parameters=(WordParameter(name="tensor"),), doc="a size")
        key = KeyDescription(path="operation.a.dtype", doc="the element type", type="string", values=('"f16"',))
        self.words = Vocabulary(
            hooks=(size,), filters=(), tests=(), globals=(), tags=(), kernel_file=(key,), settings=()
        )
        self.candidates: list[Any] = [128, 64, 96]
        self.refused: set[Any] = {96}

    async def vocabulary(self) -> Vocabulary:
        self._ask("vocabulary")
        return self.words

    async def templates(self, client: str | None) -> list[TemplateName]:
        self._ask("templates", client)
        return [TemplateName(name=NAME, path=f"/w/templates/{NAME}")]

    async def template(self, client: str | None, name: str | None, path: str | None) -> TemplateDetail:
        self._ask("template", client, name, path)
        if name not in (None, NAME):
            raise CkwatchError(f"there is no template '{name}'", "looked in: /w/templates")
        file = path or f"/w/templates/{NAME}"
        parameter = ParameterDetail(name="Tile", kind="integer", doc="a tile")
        return TemplateDetail(name=NAME, path=file, files={NAME: file}, parameters=(parameter,), units=("gemm/m128",))

    async def readers(self, client: str | None, path: str) -> list[str]:
        self._ask("readers", client, path)
        return ["gemm/m128@gfx942"]

    async def readers_of(self, client: str | None, paths: Sequence[str]) -> list[list[str]]:
        self._ask("readers_of", client, list(paths))
        return [["gemm/m128@gfx942"] for _ in paths]

    async def values(self, request: ValuesRequest) -> list[ParameterValue]:
        self._ask("values", request)
        asked = self.candidates if request.values is None else request.values
        found = [ParameterValue(value=one, accepted=one not in self.refused) for one in asked]
        return sorted(found, key=lambda one: not one.accepted)


class FakeCpp:
    """Fits `ckwatch.server.engine_api.CppEngine`."""

    def __init__(self, ask: Callable[..., None]) -> None:
        self._ask = ask

    async def ask(self, request: CppRequest) -> CppAnswer:
        self._ask("ask_cpp", request)
        return CppAnswer(unit=request.unit or "gemm/m128@gfx942", result=HOVER)
