"""The routes that help with writing templates and kernel files."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response
from pydantic import Field, model_validator

from ckwatch.serve.answers import json_answer
from ckwatch.serve.clients import Clients
from ckwatch.serve.engine import LanguageEngine
from ckwatch.serve.queries import AsClient, FileQuery
from ckwatch.wire.language import ValuesRequest
from ckwatch.wire.messages import FilePath, Name


class TemplateQuery(AsClient):
    """A template by its name (`ck/gemm_universal.hip.j2`) or by the absolute path of its file; one of the two."""

    name: Name | None = None
    path: Annotated[FilePath | None, Field(description="the file's absolute path")] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> TemplateQuery:
        if (self.name is None) == (self.path is None):
            raise ValueError("give either name or path")
        return self


class LanguageHandlers:
    """What the routes do; see the table in `app`."""

    def __init__(self, language: LanguageEngine, clients: Clients) -> None:
        self._language = language
        self._writers = clients

    async def vocabulary(self) -> Response:
        """The words of templates, and the keys of kernel files and settings."""
        return json_answer(await self._language.vocabulary())

    async def templates(self, query: Annotated[AsClient, Query()]) -> Response:
        """Every template that a kernel file could name."""
        async with self._writers.present(query.client):
            return json_answer(await self._language.templates(query.client))

    async def template(self, query: Annotated[TemplateQuery, Query()]) -> Response:
        """The files that a template is made of, and the parameters that it asks for."""
        async with self._writers.present(query.client):
            return json_answer(await self._language.template(query.client, query.name, query.path))

    async def readers(self, query: Annotated[FileQuery, Query()]) -> Response:
        """The units that read a file, as observed."""
        async with self._writers.present(query.client):
            return json_answer(await self._language.readers(query.client, query.path))

    async def values(self, request: ValuesRequest) -> Response:
        """What the instance rules say of values of a parameter: accepted ones first, then the nearest."""
        async with self._writers.present(request.client):
            return json_answer(await self._language.values(request))
