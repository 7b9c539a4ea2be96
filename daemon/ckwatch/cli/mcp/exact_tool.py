"""Tools that refuse arguments they do not have: a misspelt one would otherwise run the tool on everything."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from mcp.server.mcpserver.context import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails


class ExactTool(Tool):
    """A tool whose schema is closed, and whose mistakes of arguments are a sentence each."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run the tool. Raises ToolError for arguments that it does not take."""
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            fields = list(self.fn_metadata.arg_model.model_fields)
            found = "; ".join(_sentence(one, fields) for one in error.errors(include_url=False))
            raise ToolError(f"Error executing tool {self.name}: {found}") from None
        return await super().run(arguments, context, convert_result)


class _NothingElse(BaseModel):
    model_config = ConfigDict(extra="forbid")


def exact_tool(function: Callable[..., Any], annotations: ToolAnnotations) -> Tool:
    """A tool that calls `function`, with its parameters as arguments and its docstring as description."""
    tool = ExactTool.from_function(function, annotations=annotations)
    open_model = tool.fn_metadata.arg_model
    closed = create_model(open_model.__name__, __base__=(_NothingElse, open_model))
    metadata = tool.fn_metadata.model_copy(update={"arg_model": closed})
    return tool.model_copy(update={"fn_metadata": metadata, "parameters": closed.model_json_schema(by_alias=True)})


def _sentence(error: ErrorDetails, fields: list[str]) -> str:
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        near = get_close_matches(place, fields, n=1)
        meant = f"did you mean {near[0]}? " if near else ""
        return f"there is no argument {place}. {meant}It takes {', '.join(fields)}"
    if error["type"] == "missing":
        return f"{place} is missing"
    return f"{place}: {error['msg'][:1].lower()}{error['msg'][1:]}"
