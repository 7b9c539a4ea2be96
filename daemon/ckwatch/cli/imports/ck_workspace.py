"""A program's device operations → a kernel file and a template."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ckwatch.cli.imports.ck_gemms import OperationText
from ckwatch.cli.imports.ck_operations import ProgramOperation, TemplateArgument
from ckwatch.cli.imports.cpp_program import CppProgram, Include
from ckwatch.cli.imports.hip_workspace import Imported
from ckwatch.workspace.toml import toml_key, toml_string, toml_value

_NOT_NEEDED = re.compile(r"ck/library/(?!utility/numeric)|ck/host_utility/")


def imported_operation(
    program: CppProgram, name: str, operations: Sequence[ProgramOperation], text: OperationText, flags: Sequence[str]
) -> Imported:
    """The files for operations that differ in parameters alone."""
    kernel_file = _kernel_file(program, name, operations, text, flags)
    template = _template(program, name, operations[0], text)
    return Imported(name, kernel_file, template, text.open, text.notes, text.reference)


def _kernel_file(
    program: CppProgram, name: str, operations: Sequence[ProgramOperation], text: OperationText, flags: Sequence[str]
) -> str:
    called = ", ".join(one.name for one in operations)
    lines = [f"# {called} of {program.path.name}: {operations[0].template.name} of Composable Kernel.", ""]
    lines.append(f"template = {toml_string(name + '.hip.j2')}")
    if (found := re.search("Wmma|Dpp", operations[0].template.name)) is not None:
        lines.append(f'archs = ["gfx1100"]  # {found[0].upper()}')
    if flags:
        lines.append(f"flags = [{', '.join(map(toml_string, flags))}]")
    reference = f"{name}_reference.py"
    lines += ["", "[operation]", *(one.replace("@REFERENCE@", reference) for one in text.lines), ""]
    if any(value is None for value in text.shape.values()) or not text.shape:
        lines.append(f"# An example: {program.path.name} does not say its sizes.")
    lines.append("[[shape]]")
    lines += [f"{toml_key(key)} = {value}" for key, value in text.shape.items()]
    if text.parameters:
        lines += ["", "[defaults]"]
        lines += [f"{toml_key(key)} = {toml_value(value)}" for key, value in text.parameters.items()]
    names: list[str] = []
    for one in operations:
        names.append(one.name if one.name not in names else f"{one.name}_{len(names) + 1}")
        lines += ["", "[[instance]]", f"name = {toml_string(names[-1])}"]
        lines += [f"{toml_key(argument.name)} = {_toml_value(argument)}" for argument in one.parameters]
    return "\n".join(lines) + "\n"


def _toml_value(argument: TemplateArgument) -> str:
    value = argument.value
    return toml_value(list(value) if isinstance(value, tuple) else value)


def _template(program: CppProgram, name: str, operation: ProgramOperation, text: OperationText) -> str:
    scope = re.sub(r"\W", "_", name)
    parts = {
        "TITLE": f"{operation.name} of {program.path.name}: {operation.template.name} of Composable Kernel.",
        "DECLARED": "".join(f"    {one.name} ({_type(one)}): {_meaning(one)}\n" for one in operation.parameters),
        "INCLUDES": "".join(f'#include "{one}"\n' for one in headers_needed(program.includes, operation)),
        "SCOPE": scope if not scope[:1].isdigit() else f"_{scope}",
        "DEFINITIONS": "".join(f"{raw(one)}\n\n" for one in _definitions(program, operation, text)),
        "CALLED": operation.called,
        "ARGUMENTS": ",\n".join(f"        {_argument(one, text)}" for one in operation.arguments),
        "INPUTS": ", ".join(text.inputs),
        "OUTPUTS": ", ".join(text.outputs),
        "HELPERS": f"{text.helpers}\n" if text.helpers else "",
        "REFUSED": "".join(map(refusal, text.refused)) + _rest_of_k(operation, text),
        "BEFORE": text.before,
        "CALL": ",\n".join(f"        {one}" for one in text.call),
        "CHECKS": "".join(f"    {{{{ check_not_null({one}) }}}}\n" for one in (*text.inputs, *text.outputs)),
    }
    for key in ("BEFORE", "REFUSED"):
        parts[key] = parts[key].replace("@SCOPE@", parts["SCOPE"])
    return re.sub(r"@([A-Z]+)@", lambda found: parts[found[1]], _TEMPLATE)


_REFUSAL = """\
    if (@CONDITION@) {
        fprintf(stderr, "{{ KERNEL_NAME }}: not supported: %s\\n", "@WHY@");
        return -23;
    }
"""


def refusal(condition: str) -> str:
    """Statements that refuse a launch under a condition in C++."""
    why = condition
    if (found := re.search(r"is_unaddressable\(\{\{ ptr\((\w+)\)", condition)) is not None:
        why = f"{found[1]} reaches beyond 2 GiB, or is not aligned for the vectors in which it is read or written"
    return _REFUSAL.replace("@CONDITION@", condition).replace("@WHY@", why)


_TEMPLATE = """\
{#-
    @TITLE@

@DECLARED@-#}
{{ header("ck") }}
@INCLUDES@
#include <array>
#include <exception>
#include <vector>

{{ globals("ck") }}
namespace @SCOPE@ {

@DEFINITIONS@using DeviceOperation =
    @CALLED@<
@ARGUMENTS@>;

@HELPERS@}  // namespace @SCOPE@

extern "C" PT_EXPORT {{ def_kernel(inputs=[@INPUTS@], outputs=[@OUTPUTS@]) }} {
    using namespace @SCOPE@;
@REFUSED@@BEFORE@    @SCOPE@::DeviceOperation operation;
    const auto argument = operation.MakeArgumentPointer(
@CALL@);
    if (!operation.IsSupportedArgument(argument.get())) {
        fprintf(stderr, "{{ KERNEL_NAME }}: not supported: the instance does not support these sizes\\n");
        return -23;
    }
    if (workspace_size) {
        *workspace_size = operation.GetWorkSpaceSize(argument.get());
        return 0;
    }
@CHECKS@    operation.SetWorkSpacePointer(argument.get(), workspace, StreamConfig{stream});
    (void)hipGetLastError();  // an older error is not this launch's
    try {
        operation.MakeInvokerPointer()->Run(argument.get(), StreamConfig{stream});
    } catch (const std::exception& error) {
        fprintf(stderr, "{{ KERNEL_NAME }}: %s\\n", error.what());
        return -23;
    }
    return hipGetLastError();
}
"""


def _rest_of_k(operation: ProgramOperation, text: OperationText) -> str:
    """The condition on K that not all of CK's operations check: without padding they leave out a part of a tile."""
    names = {one.name for one in operation.parameters}
    if "K" not in text.shape or "GemmSpec" not in names:
        return ""
    if "KPerBlock" in names:
        condition = refusal("K % {{ KPerBlock }} != 0")
    elif {"K0PerBlock", "K1"} <= names:
        condition = refusal("K % {{ K0PerBlock * K1 }} != 0")
    else:
        return ""
    return f'{{%- if "K" not in GemmSpec %}}\n{condition}{{%- endif %}}\n'


def headers_needed(includes: Sequence[Include], operation: ProgramOperation) -> list[str]:
    """CK's headers that the program includes, without those of its host code, and the operation's own."""
    named = [one.name for one in includes if one.name.startswith("ck/") and not _NOT_NEEDED.match(one.name)]
    return list(dict.fromkeys((*named, operation.template.header)))


def _definitions(program: CppProgram, operation: ProgramOperation, text: OperationText) -> list[str]:
    """The program's definitions that the template's C++ mentions."""
    kept = [one.text for one in operation.arguments if one.value is None and one.parameter.name not in text.hooks]
    mentioned = " ".join((operation.called, *kept, *(one.scope for one in operation.arguments), *text.call))
    return [one.text.strip() for one in program.needed(mentioned, lambda name: name in ("S", "Tuple"))]


def raw(text: str) -> str:
    """Text of a program for a template, where it may look like Jinja."""
    return f"{{% raw %}}{text}{{% endraw %}}" if re.search(r"\{[{%#]", text) else text


def _argument(one: TemplateArgument, text: OperationText) -> str:
    hook = text.hooks.get(one.parameter.name)
    if hook is not None:
        return f"/* {one.parameter.name} */ {hook}"
    if one.value is None:
        return f"/* {one.parameter.name} */ {raw(one.text)}"
    if one.scope:
        return f"/* {one.parameter.name} */ {one.scope}{{{{ {one.name} }}}}"
    return f'{{{{ template_argument("{one.name}") }}}}'


def _type(one: TemplateArgument) -> str:
    if isinstance(one.value, bool):
        return "true or false"
    if isinstance(one.value, int):
        return "integer"
    return "string" if isinstance(one.value, str) else "array of integers"


def _meaning(one: TemplateArgument) -> str:
    if one.scope:
        return f"an enumerator of {one.scope.removesuffix('::').rpartition('::')[2]}"
    return "as CK's template parameter"


def kernel_names(path: Path, groups: Sequence[Sequence[ProgramOperation]]) -> list[str]:
    """A name for each group of operations: the file's, with the operation's if there are several."""
    stem = re.sub(r"[^\w.-]+", "_", path.stem)
    if len(groups) == 1:
        return [stem]
    names = [f"{stem}_{one[0].name}" for one in groups]
    return [name if name not in names[:at] else f"{name}_{at + 1}" for at, name in enumerate(names)]
