"""`ckwatch schema [COMMAND]`: the JSON Schema of what commands print with `--json`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any, Union

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue
from pydantic_core.core_schema import WithDefaultSchema

from ckwatch.cli.json_output import DIAGNOSTIC_LINE, OUTPUT
from ckwatch.model.errors import CkwatchError
from ckwatch.model.unit_patterns import nearest_name

MODE: JsonSchemaMode = "serialization"


class OutputSchema(GenerateJsonSchema):
    """Every field is printed, also where it has its default."""

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: ARG002  # a method of pydantic's
        return True

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """Without the default, which users need not know."""
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # a title says no more than the name
        """No field has a title."""
        return False


def run(options: argparse.Namespace) -> int:
    """Print the schema of a command, or of all."""
    schema = command_schema(" ".join(options.words)) if options.words else full_schema()
    sys.stdout.write(json.dumps(schema, ensure_ascii=False, indent=2) + "\n")
    return 0


def next_words(given: Sequence[str]) -> list[str]:
    """Return the possible next words of a command's name, for a shell."""
    known = [name.split() for name in OUTPUT]
    return [words[len(given)] for words in known if words[: len(given)] == [*given] and len(words) > len(given)]


def command_schema(command: str) -> dict[str, Any]:
    """The schema of each line of a command. Raises CkwatchError for one without `--json`."""
    if command not in OUTPUT:
        actions = [name for name in OUTPUT if name.partition(" ")[0] == command]
        near = nearest_name(OUTPUT, command)
        hint = f"did you mean '{near}'?" if near and not actions else f"there are: {', '.join(actions or OUTPUT)}"
        raise CkwatchError(f"there is no command '{command}' with --json", hint)
    found = _adapter(OUTPUT[command]).json_schema(mode=MODE, schema_generator=OutputSchema)
    return _head(f"ckwatch {command} --json", "Each line is one of these objects.") | found


def full_schema() -> dict[str, Any]:
    """One document with a definition for each command, and for each type."""
    adapters = [(command, MODE, _adapter(types)) for command, types in OUTPUT.items()]
    found, defined = TypeAdapter.json_schemas(adapters, schema_generator=OutputSchema)
    commands = {command: found[command, MODE] for command in OUTPUT}
    head = _head("ckwatch COMMAND --json", "#/$defs/COMMAND describes each line of a command.")
    return head | {"$defs": commands | defined["$defs"]}


def _head(title: str, description: str) -> dict[str, Any]:
    return {"$schema": OutputSchema.schema_dialect, "title": title, "description": description}


def _adapter(types: Sequence[type]) -> TypeAdapter[Any]:
    union: Any = Union[(*types, DIAGNOSTIC_LINE)]
    return TypeAdapter(union)
