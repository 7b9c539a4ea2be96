"""What a program that helps with writing templates and kernel files can ask."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ckwatch.client.access import parsed_list
from ckwatch.client.analysis import AnalysisCalls

if TYPE_CHECKING:
    from ckwatch.client.http import Query
    from ckwatch.wire.language import ParameterValue, TemplateDetail, TemplateName, Vocabulary
    from ckwatch.wire.values import Unit


class LanguageCalls(AnalysisCalls):
    """The part of a client that knows the words of templates and files."""

    async def vocabulary(self) -> Vocabulary:
        """The hooks, filters, tests, names and tags of templates, and the keys of kernel files and `ckwatch.toml`.

        It is the same as long as the daemon runs.
        """
        from ckwatch.wire.language import Vocabulary

        return await self._access.get(Vocabulary, ("vocabulary",))

    async def templates(self) -> list[TemplateName]:
        """Every template that a kernel file could name, in order of the search path."""
        from ckwatch.wire.language import TemplateName

        return parsed_list(list[TemplateName], await self._access.request("GET", ("templates",), await self._view()))

    async def template(self, name: str | None = None, *, path: str | os.PathLike[str] | None = None) -> TemplateDetail:
        """What a template includes and which parameters it asks for, by its name or by its file's path.

        Files that templates include are found by their paths, too. Raises CkwatchError where there is none.
        """
        from ckwatch.wire.language import TemplateDetail

        given: Query = [("path", self._absolute(path))] if path is not None else [("name", name or "")]
        return await self._access.get(TemplateDetail, ("template",), [*given, *await self._view()])

    async def readers(self, path: str | os.PathLike[str]) -> list[str]:
        """The ids of the units that read a file, as observed: as template, header or kernel file."""
        query: Query = [("path", self._absolute(path)), *await self._view()]
        return parsed_list(list[str], await self._access.request("GET", ("readers",), query))

    async def values(
        self,
        unit: str | Unit,
        parameter: str,
        values: Sequence[Any] | None = None,
        *,
        parameters: Mapping[str, Any] | None = None,
    ) -> list[ParameterValue]:
        """What the instance rules say of values of a parameter: accepted ones first, then the nearest.

        Without `values` those that the parameter may have, or some near its present one. `parameters`: all parameters
        of the instance, where they are others than the daemon knows.
        """
        from ckwatch.wire.language import ParameterValue, ValuesRequest

        request = ValuesRequest.model_construct(
            unit=unit if isinstance(unit, str) else unit.id,
            parameter=parameter,
            values=None if values is None else list(values),
            parameters=None if parameters is None else dict(parameters),
            client=await self._viewer(),
        )
        return parsed_list(list[ParameterValue], await self._access.request("POST", ("values",), body=request))

    async def _viewer(self) -> str | None:
        """This client's id where its view is its own."""
        return None

    def _absolute(self, path: str | os.PathLike[str]) -> str:
        """As the daemon names the file."""
        return os.fspath(path)
