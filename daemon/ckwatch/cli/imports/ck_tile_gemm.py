"""A program of CK Tile that multiplies matrices → a kernel file and a template.

Its function with a `stream_config` makes and launches the kernel: it is copied with what it needs, and the constants of
its configuration become parameters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from ckwatch.cli.imports.ck_gemms import ADDRESSES, unaddressable
from ckwatch.cli.imports.ck_workspace import raw, refusal
from ckwatch.cli.imports.cpp_program import CppDefinition, CppProgram
from ckwatch.cli.imports.hip_workspace import Imported
from ckwatch.cli.imports.source_text import elements
from ckwatch.headers.masked_text import closing
from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.toml import toml_key, toml_string, toml_value

_STREAM = re.compile(r"(?P<name>\w+)\s*\((?P<arguments>[^(){}]*\bstream_config\b[^(){}]*)\)\s*\{")
_MEMBER = re.compile(r"(?P<head>\bconstexpr\s+[\w:]+\s+(?P<name>\w+)\s*=\s*)(?P<value>[^;{}]+?)\s*;")
_DTYPES = {"fp16": "f16", "bf16": "bf16", "fp8": "f8", "bf8": "bf8", "int8": "i8", "i8": "i8", "fp32": "f32"}
_BYTES = {"f16": 2, "bf16": 2, "f32": 4}
Parameter = int | bool | str


@dataclass(slots=True)
class _Tile:
    """The known facts of a program."""

    program: CppProgram
    launcher: str
    templates: list[str]
    host_type: str
    definition: CppDefinition
    offset: int
    parameters: dict[str, Parameter] = field(default_factory=dict)


def tile_gemm(program: CppProgram, name: str, flags: Sequence[str]) -> Imported | None:
    """The files for a program of CK Tile's GEMMs; None for another program. Raises CkwatchError."""
    tile = _launcher(program)
    if tile is None:
        return None
    names = [one.split()[-1] for one in tile.templates]
    if not {"ADataType", "BDataType", "ALayout", "BLayout"} <= set(names):
        place = program.place(tile.offset)
        raise CkwatchError(
            f"{place}: `{tile.launcher}` is not a GEMM of CK Tile: it has no ADataType, BDataType, ALayout and BLayout",
            "programs of CK Tile that multiply matrices can be imported",
        )
    types = _types(program)
    texts = _definitions(tile, names, types["a"])
    if tile.parameters.get("Preshuffle"):
        raise CkwatchError(
            f"{program.place(tile.offset)}: `{tile.launcher}` wants W in another order, which is not imported"
        )
    kernel_file = _kernel_file(tile, name, types, flags)
    return Imported(name, kernel_file, _template(tile, name, names, texts), [], [])


def _launcher(program: CppProgram) -> _Tile | None:
    for found in _STREAM.finditer(program.code):
        around = [
            one
            for ones in program.definitions.values()
            for one in ones
            if one.kind in ("struct", "function") and one.start <= found.start() < one.end
        ]
        head = program.code.rfind("template", 0, found.start())
        if len(around) != 1 or head < 0 or "<" not in program.code[head : found.start()]:
            continue
        opening = program.code.index("<", head)
        end = closing(program.code, opening)
        if end < 0 or not re.fullmatch(r"[\w\s]*", program.code[end + 1 : found.start()]):
            continue
        parameters = [one.partition("=")[0].strip() for one in elements(program.code[opening + 1 : end])]
        first = elements(found["arguments"])[0]
        kind = re.sub(r"\bconst\b|&|\w+\s*$", "", first).strip()
        owner = around[0]
        called = f"{owner.name}::{found['name']}" if owner.kind == "struct" else found["name"]
        return _Tile(program, called, parameters, kind, owner, found.start())
    return None


def _option(program: CppProgram, name: str) -> str | None:
    """The default of an argument of the command line."""
    found = re.search(rf'\binsert\(\s*"{name}"\s*,\s*"([^"]*)"', program.text)
    return None if found is None else found[1]


def _types(program: CppProgram) -> dict[str, str]:
    precision = _option(program, "prec") or "fp16"
    dtype = _DTYPES.get(precision)
    if dtype is None:
        raise CkwatchError(f"{program.path}: kernel files have no dtype for `{precision}`")
    result = {"f8": "f16", "bf8": "f16", "i8": "i32"}.get(dtype, dtype)
    layouts = {key: "col" if _option(program, f"{key}_layout") == "C" else "row" for key in "abc"}
    return {"a": dtype, "c": result, **{f"{key}_layout": value for key, value in layouts.items()}}


def _configuration(program: CppProgram) -> str | None:
    """The structure with the constants of the tile that the program chooses."""
    named: list[str] = re.findall(r"\brun\w*\s*<\s*(\w*Config\w*)\s*[>,]", program.code)
    for one in (program.value_of("GemmConfig") or "", *named):
        if any(found.kind == "struct" for found in program.definitions.get(one, ())):
            return one
    return None


def _definitions(tile: _Tile, names: Sequence[str], dtype: str) -> list[str]:
    """The texts that the template needs, with parameters for constants."""
    program = tile.program
    chain = []
    one = _configuration(program)
    while one in program.definitions and one not in chain:
        chain.append(one)
        base = re.search(r"\bstruct\s+\w+\s*(?:final\s*)?:\s*(?:public\s+)?(\w+)", program.definitions[one][0].text)
        one = base[1] if base is not None else ""
    if "GemmConfig" in names and not chain:
        raise CkwatchError(f"{program.place(tile.offset)}: the configuration of `{tile.launcher}` is not written out")
    own = [*chain, tile.definition.name]
    written = {name: _with_parameters(tile, program.definitions[name][0].text, dtype) for name in own}
    needed = program.needed(" ".join(own), lambda name: name == "main", local=False)
    return [written.get(found.name) if found.name in own and found.kind == "struct" else found.text for found in needed]  # type: ignore[misc]


def _with_parameters(tile: _Tile, text: str, dtype: str) -> str:
    bytes_of = _BYTES.get(dtype, 1)

    def parameter(found: re.Match[str]) -> str:
        name = found["name"]
        written = re.sub(r"\bsizeof\s*\(\s*\w+\s*\)", str(bytes_of), found["value"])
        value: Parameter | None = tile.program.integer(written)
        if re.search(r"\bbool\s+\w+\s*=", found["head"]) and value is not None:
            value = bool(value)
        scope, separator, enumerator = found["value"].strip().rpartition("::")
        if value is None and separator and enumerator.isidentifier() and scope.startswith("ck_tile::"):
            value = enumerator
        if value is None or name in tile.parameters:
            return found[0]
        tile.parameters[name] = value
        shown = f"{{{{ {name} | lower }}}}" if isinstance(value, bool) else f"{{{{ {name} }}}}"
        return f"{found['head']}{scope + '::' if isinstance(value, str) else ''}{shown};"

    marked = re.sub(r"\{(?=[{%#])", "{ ", text).replace("}}", "} }")
    return _MEMBER.sub(parameter, marked)


def _kernel_file(tile: _Tile, name: str, types: dict[str, str], flags: Sequence[str]) -> str:
    program = tile.program
    lines = [f"# {tile.launcher} of {program.path.name}: a GEMM of CK Tile.", ""]
    lines.append(f"template = {toml_string(name + '.hip.j2')}")
    if flags:
        lines.append(f"flags = [{', '.join(map(toml_string, flags))}]")
    lines += ["", "[operation]", 'kind = "gemm"']
    for key in "abc":
        dtype, layout = types["c" if key == "c" else "a"], types[f"{key}_layout"]
        lines.append(f"{key} = {{ dtype = {toml_string(dtype)}, layout = {toml_string(layout)} }}")
    lines += ["", "[[shape]]"]
    for size in "MNK":
        lines.append(f"{size} = {_option(program, size.lower()) or program.number(size) or 1024}")
    lines += ["", "[[instance]]", f"name = {toml_string(_configuration(program) or tile.definition.name)}"]
    lines += [f"{toml_key(key)} = {toml_value(value)}" for key, value in tile.parameters.items()]
    return "\n".join(lines) + "\n"


def _template(tile: _Tile, name: str, names: Sequence[str], texts: Sequence[str]) -> str:
    program = tile.program
    scope = re.sub(r"\W", "_", name)
    configuration = _configuration(program)
    if configuration is not None and program.definitions[configuration][0].parameters:
        configuration = f"{configuration}<{{{{ dtype(X) }}}}>"
    hooks = {
        "ADataType": "{{ dtype(X) }}", "BDataType": "{{ dtype(W) }}", "CDataType": "{{ dtype(Y) }}",
        "EDataType": "{{ dtype(Y) }}", "AccDataType": "{{ operation.accumulator | upper }}",
        "ALayout": "{{ layout(X) }}", "BLayout": "{{ layout(W) }}", "CLayout": "{{ layout(Y) }}",
        "ELayout": "{{ layout(Y) }}", "DsDataType": "ck_tile::tuple<>", "DsLayout": "ck_tile::tuple<>",
        "Persistent": "false", "CDEElementWise": "ck_tile::element_wise::PassThrough",
        "GemmConfig": configuration or "",
    }  # fmt: skip
    for one in names:
        if one not in hooks:
            raise CkwatchError(f"{program.place(tile.offset)}: the template argument {one} is not known")
    arguments = ",\n".join(f"            /* {one} */ {hooks[one]}" for one in names)
    headers = [one for one in program.includes if not one.quoted or one.name.startswith("ck_tile/")]
    includes = "".join(
        f'#include "{one}"\n' if one.startswith("ck_tile/") else f"#include <{one}>\n"
        for one in dict.fromkeys(one.name for one in headers)
        if not one.startswith("hip/")
    )
    declared = "".join(
        f"    {key} ({_kind(value)}): a constant of the program\n" for key, value in tile.parameters.items()
    )
    refused = "".join(
        refusal(unaddressable(tensor, lines, "256", leading, "8")).replace("@SCOPE@", scope)
        for tensor, lines, leading in (("X", "MK", "LDA"), ("W", "KN", "LDB"), ("Y", "MN", "LDC"))
    )
    definitions = "".join(f"{_text(one)}\n\n" for one in texts)
    host = ",\n".join(f"        {one}" for one in _host_arguments(tile))
    return (
        f"{{#-\n    {tile.launcher} of {program.path.name}, a GEMM of CK Tile.\n\n{declared}-#}}\n"
        f'{{{{ header("ck_tile") }}}}\n{includes}#include <exception>\n\n{{{{ globals("ck_tile") }}}}\n'
        f"namespace {scope} {{\n\n{definitions}{ADDRESSES}\n}}  // namespace {scope}\n\n"
        'extern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y]) }} {\n'
        f"    using namespace {scope};\n{refused}"
        "    if (workspace_size) {\n        *workspace_size = 0;\n        return 0;\n    }\n"
        "    {{ check_not_null(X) }}\n    {{ check_not_null(W) }}\n    {{ check_not_null(Y) }}\n"
        f"    {tile.host_type} arguments{{\n{host}}};\n"
        "    (void)hipGetLastError();  // an older error is not this launch's\n"
        f"    try {{\n        {scope}::{tile.launcher}<\n{arguments}>(\n"
        "            arguments, ck_tile::stream_config{stream});\n"
        "    } catch (const std::exception& error) {\n"
        '        fprintf(stderr, "{{ KERNEL_NAME }}: %s\\n", error.what());\n        return -23;\n    }\n'
        "    return hipGetLastError();\n}\n"
    )


def _text(text: str) -> str:
    return text if re.search(r"\{\{ \w+( \| lower)? \}\}", text) else raw(text)


def _host_arguments(tile: _Tile) -> list[str]:
    """The program's arguments for its launcher, in the C function's terms."""
    kind = re.escape(tile.host_type.split("<")[0])
    found = re.search(rf"{kind}(?:\s*<[^<>;{{}}]*>)?\s+(\w+)\s*=?\s*\{{", tile.program.code)
    place = tile.program.place(tile.offset)
    if found is None:
        raise CkwatchError(f"{place}: the program does not write out the {tile.host_type} that it passes")
    end = closing(tile.program.code, found.end() - 1)
    given = []
    for text in elements(tile.program.code[found.end() : end]):
        value = next((value for pattern, value in _HOST if re.fullmatch(pattern, text, re.IGNORECASE)), None)
        if value is None:
            raise CkwatchError(f"{place}: the argument {text} of {tile.host_type} is not known")
        given.append(value)
    return given


_HOST = (
    (r"a\w*(?:\.GetDeviceBuffer\(\)|_ptr)", "{{ arg_name(X) }}"),
    (r"b\w*(?:\.GetDeviceBuffer\(\)|_ptr)", "{{ arg_name(W) }}"),
    (r"[ce]\w*(?:\.GetDeviceBuffer\(\)|_ptr)", "{{ arg_name(Y) }}"),
    (r"k_?batch|split_?k", "kBatch"),
    ("M", "M"),
    ("N", "N"),
    ("K", "K"),
    (r"stride_?a", "LDA"),
    (r"stride_?b", "LDB"),
    (r"stride_?[ce]", "LDC"),
)


def _kind(value: Parameter) -> str:
    if isinstance(value, bool):
        return "true or false"
    return "integer" if isinstance(value, int) else "string"
