"""The keys of kernel files and of `ckwatch.toml`, as the models that validate them say."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import AfterValidator, BaseModel, BeforeValidator
from pydantic_core import PydanticUndefined

from ckwatch.config import operation_tables, settings
from ckwatch.config.archs import ARCHS, HOST, NATIVE
from ckwatch.config.kernel_file import TABLES as KERNEL_TABLES
from ckwatch.config.kernel_file import KernelTable
from ckwatch.config.operation import GEMM_RUNTIME, GEMM_SIZES
from ckwatch.config.operation import TABLES as OPERATIONS
from ckwatch.config.settings import Settings
from ckwatch.config.shapes import GEMM_LEADING, RUNTIME_DEFAULTS
from ckwatch.config.sweep import SweepTable
from ckwatch.model.dtypes import DTYPES, LAYOUTS
from ckwatch.runtime import language_docs
from ckwatch.wire.language import Key

VALUES: Mapping[object, tuple[str, ...]] = {
    operation_tables.known_dtype: tuple(DTYPES),
    operation_tables.known_layout: tuple(LAYOUTS),
    operation_tables.known_activation: operation_tables.ACTIVATIONS,
    operation_tables.known_scaling: ("tensor", "row"),
    operation_tables.known_runtime_type: operation_tables.RUNTIME_TYPES,
    settings.known_arch: (*ARCHS, NATIVE, HOST),
    settings.device_arch: (*ARCHS, NATIVE),
}
"""What each validator of a word accepts; an arch may have features besides."""

_SIZES = {settings.size_bytes: "size", operation_tables.size_expression: "size expression"}

PARAMETER = "integer, number, true or false, string, or array of integers"


def settings_keys() -> tuple[Key, ...]:
    """The keys of `ckwatch.toml`."""
    return tuple(_keys_of(Settings, "", language_docs.SETTINGS, {}))


def kernel_file_keys() -> tuple[Key, ...]:
    """The keys of a kernel file."""
    docs = language_docs.KERNEL_FILE
    found = [key for key in _keys_of(KernelTable, "", docs, {}) if key.path not in KERNEL_TABLES]
    found.append(_table("operation", docs, required=True))
    kind = Key(path="operation.kind", doc=docs["operation.kind"], type="string", required=True)
    found.append(kind.model_copy(update={"values": tuple(f'"{name}"' for name in OPERATIONS)}))
    for name, model in OPERATIONS.items():
        found += [
            key for key in _keys_of(model, "operation.", docs, {"operation.kind": name}) if key.path != "operation.kind"
        ]
    found += [*_shape_keys(docs), _table("defaults", docs), _parameter("defaults.*", docs)]
    found += [_table("instance", docs, "array of tables"), _named("instance.name", docs, required=True)]
    found += [_parameter("instance.*", docs), _table("sweep", docs, "array of tables")]
    for key in _keys_of(SweepTable, "sweep.", docs, {}):
        match key.path:
            case "sweep.where":
                found.append(key.model_copy(update={"type": "string or array of strings"}))
            case "sweep.parameters.*":
                found.append(key.model_copy(update={"type": f"array of values, or one value: {PARAMETER}"}))
            case _:
                found.append(key)
    return tuple(found)


def _shape_keys(docs: Mapping[str, str]) -> Iterator[Key]:
    yield _table("shape", docs, "array of tables")
    yield _named("shape.name", docs)
    gemm = {"operation.kind": "gemm"}
    for name in (*GEMM_SIZES, *GEMM_RUNTIME):
        path = f"shape.{name}"
        default = str(RUNTIME_DEFAULTS.get(name, ""))
        needed = name not in GEMM_LEADING and name not in RUNTIME_DEFAULTS
        yield Key(path=path, doc=docs[path], type="integer", required=needed, default=default, when=gemm)
    yield Key(path="shape.*", doc=docs["shape.*"], type="integer or number", when={"operation.kind": "custom"})


def _table(path: str, docs: Mapping[str, str], kind: str = "table", *, required: bool = False) -> Key:
    return Key(path=path, doc=docs[path], type=kind, required=required)


def _named(path: str, docs: Mapping[str, str], *, required: bool = False) -> Key:
    return Key(path=path, doc=docs[path], type="string", required=required)


def _parameter(path: str, docs: Mapping[str, str]) -> Key:
    return Key(path=path, doc=docs[path], type=PARAMETER)


def _keys_of(model: type[BaseModel], prefix: str, docs: Mapping[str, str], when: Mapping[str, str]) -> Iterator[Key]:
    hints = get_type_hints(model, include_extras=True)
    for name, field in model.model_fields.items():
        path = prefix + name
        required = field.is_required()
        kind, values, inner = _kind(hints[name])
        yield Key(
            path=path,
            doc=docs.get(path, ""),
            type=kind,
            values=values,
            required=required,
            default="" if inner is not None or required else _written(field.default, kind),
            when=dict(when),
        )
        if inner is not None:
            yield from _keys_of(inner, path + ".", docs, when)
        elif kind == "table":
            value_kind, values, _ = _kind(get_args(_stripped(hints[name])[0])[1])
            yield Key(path=f"{path}.*", doc=docs.get(f"{path}.*", ""), type=value_kind, values=values, when=dict(when))


def _stripped(annotation: Any) -> tuple[Any, tuple[object, ...]]:
    """The type behind `Annotated` and `| None`, and the functions that validate it."""
    checks: list[object] = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            checks += [one.func for one in more if isinstance(one, (AfterValidator, BeforeValidator))]
        elif get_origin(annotation) in (Union, types.UnionType):
            options = [one for one in get_args(annotation) if one is not types.NoneType]
            if len(options) > 1:
                return annotation, tuple(checks)
            annotation = options[0]
        else:
            return annotation, tuple(checks)


def _kind(annotation: Any) -> tuple[str, tuple[str, ...], type[BaseModel] | None]:
    """In words, the allowed values as they stand in TOML, and the model of a table."""
    plain, checks = _stripped(annotation)
    for check in checks:
        if check in _SIZES:
            return _SIZES[check], (), None
    words = next((VALUES[check] for check in checks if check in VALUES), ())
    if get_origin(plain) is Literal:
        return "string", tuple(f'"{value}"' for value in get_args(plain)), None
    if get_origin(plain) in (Union, types.UnionType):
        return " or ".join(_kind(option)[0] for option in get_args(plain)), (), None
    if get_origin(plain) is list:
        kind, values, inner = _kind(get_args(plain)[0])
        return f"array of {_plural(kind)}", values, inner
    if get_origin(plain) is dict:
        return "table", (), None
    if isinstance(plain, type) and issubclass(plain, BaseModel):
        return "table", (), plain
    if plain is bool:
        return "true or false", ("true", "false"), None
    return _NAMES.get(plain, "value"), tuple(f'"{word}"' for word in words), None


_NAMES: Mapping[object, str] = {str: "string", int: "integer", float: "number", Path: "path"}


def _plural(kind: str) -> str:
    return f"{kind}s" if kind in ("string", "integer", "number", "path", "table", "size expression") else kind


def _written(value: Any, kind: str) -> str:
    """A default as it stands in TOML; empty for none."""
    if value is None or value is PydanticUndefined:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(_written(item, '') for item in value)}]"
    if isinstance(value, dict):
        return "{}"
    if kind == "size":
        for name, unit in (("GiB", settings.GIB), ("MiB", settings.MIB)):
            if value % unit == 0:
                return f'"{value // unit} {name}"'
    return str(value)
