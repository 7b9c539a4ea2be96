"""Reads one `*.kernel.toml`, each table by itself, so that one problem hides no other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any, TypeVar

from pydantic import Field

from ckwatch.model.diagnostics import Diagnostic, Fix, Related, Severity
from ckwatch.model.kernels import Instance, Kernel, Operation, Shape
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.names import unseen_in, why_no_name
from ckwatch.model.targets import arch_has_language, arch_mismatch, default_archs, language_of
from ckwatch.model.text import Span
from ckwatch.system.user_files import broken_link
from ckwatch.workspace import operations
from ckwatch.workspace.array_files import read_array_files
from ckwatch.workspace.compiler_flags import check_flags
from ckwatch.workspace.named_files import NamedFiles
from ckwatch.workspace.open_places import report_open_places
from ckwatch.workspace.parameters import ParameterReader, PlacedValue, identity, merge_tables
from ckwatch.workspace.problems import Problems, join_names
from ckwatch.workspace.references import check_arguments
from ckwatch.workspace.settings import AnyArch, LimitsSection, Name, Section, name_at
from ckwatch.workspace.shapes import read_shapes
from ckwatch.workspace.sweep import SweepPlan, expand_sweep, read_sweep
from ckwatch.workspace.template_search import TEMPLATE_SUFFIXES, TemplateSearch
from ckwatch.workspace.toml_document import KeyPath, TomlDocument
from ckwatch_templates import ROOT as BUILT_IN

KERNEL_FILE_SUFFIX = ".kernel.toml"

TABLES = ("operation", "defaults", "shape", "instance", "sweep")

SHARED = 200
"""Operations and parameters that are remembered, to be shared."""

_Value = TypeVar("_Value")
_known: dict[str, Any] = {}

PARAMETERS_BELONG = "template parameters belong in [defaults], [[instance]] or [sweep.parameters]"


class KernelTable(Section):
    """The keys at the top of a kernel file; its tables are read one by one."""

    name: Name | None = Field(
        None, description="unique in the workspace; by default the file's name without `.kernel.toml`"
    )
    template: str = Field(description="`*.hip.j2`, `*.cu.j2` (GPU) or `*.cpp.j2` (host)")
    archs: Annotated[list[AnyArch], Field(min_length=1)] | None = Field(
        None, description='what to compile for; by default what the workspace says, and `["host"]` for `*.cpp.j2`'
    )
    flags: list[str] = Field([], description="added to the compiler's flags")
    operation: Any = Field(description="what the kernel computes: tensors, sizes and arguments of its C function")
    defaults: Any = Field(None, description="template parameters of all instances")
    shape: Any = Field(None, description="sizes that the kernel is timed on")
    instance: Any = Field(None, description="one set of template parameters; its own win over `[defaults]`")
    sweep: Any = Field(
        None, description="every combination of parameter values that meets the conditions, one instance each"
    )


INSTANCE_NAME_DOC = "a unit is called `KERNEL/INSTANCE@ARCH`"

ELSEWHERE = {
    name: f"`{name}` is a key of the file: write it above the first table"
    for name in KernelTable.model_fields
    if name not in TABLES
}


@dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel file's kernel, or None where problems leave nothing to compile; `name_span` is where its name stands.
    `spaces` are the sweeps that are searched, not expanded. `text` is what it was read from: not quite the file's while
    tables are half typed (`ckwatch.workspace.half_typed`)."""

    kernel: Kernel | None
    name: str
    name_span: Span
    diagnostics: tuple[Diagnostic, ...]
    spaces: tuple[SweepPlan, ...] = ()
    text: str = ""


def read_kernel(
    document: TomlDocument,
    search: TemplateSearch,
    archs: Sequence[str],
    limits: LimitsSection,
    files: NamedFiles,
) -> LoadedKernel:
    """Read a kernel file. `archs` are those of the workspace, `files` reads those that it names."""
    problems = Problems(document)
    problems.found += document.diagnostics
    problems.errors_found += len(document.diagnostics)
    values = document.values
    name = PurePath(document.path).name.removesuffix(KERNEL_FILE_SUFFIX)
    elsewhere = {key: PARAMETERS_BELONG for key in values if key[:1].isupper()}
    elsewhere |= {key: f"`{key}` belongs in [operation]" for key in operations.OPERATION_KEYS}
    table = problems.validated(KernelTable, values, (), elsewhere=elsewhere)
    if table is not None:
        check_flags(problems, table.flags, ("flags",))
    given_name = values.get("name")
    if isinstance(given_name, str):
        name = given_name
    elif (reason := why_no_name(name)) is not None:
        message = f"{reason}; the kernel is called after its file: rename that, or give the kernel a `name`"
        problems.add("invalid-name", message, document.beginning)
    template = _template(problems, values.get("template"), search)
    if template is not None and _is_wrong_kind(problems, values.get("operation"), template, search):
        return LoadedKernel(None, name, _name_span(document), tuple(problems.found))
    operation, shapes, described = read_described(problems, values, ELSEWHERE, files)
    usable = described and table is not None and why_no_name(name) is None and template is not None
    chosen = _archs(problems, table, template, archs)
    reader = ParameterReader(problems, _names_of(operation))
    if template is not None:
        reader.replacement = partial(search.meant, template)
        reader.is_typed = partial(search.declares, template)
    spaces: list[SweepPlan] = []
    instances = _read_instances(reader, values, limits, spaces)
    if operation is not None and instances is not None:
        parameters = [name for one in instances for name in one.parameters]
        for space in spaces:
            parameters += [*space.fixed, *(axis.parameter for axis in space.axes)]
            parameters += [one.parameter for one in space.derived]
        operation = with_checked_reference(problems, operation, parameters)
    kernel = None
    if usable and instances is not None and table is not None and template is not None and operation is not None:
        kernel = Kernel(
            name=name,
            path=document.path,
            template=template,
            template_span=document.span_of(("template",)),
            operation=_shared(_with_split_k(operation, values["operation"], shapes)),
            operation_spans=operations.operation_spans(problems, values["operation"]),
            shapes=tuple(shapes),
            instances=tuple(instances),
            archs=chosen,
            flags=tuple(table.flags),
            arch_spans={arch: document.span_of(("archs", index)) for index, arch in enumerate(table.archs or ())},
            flag_spans=tuple(document.span_of(("flags", index)) for index in range(len(table.flags))),
            key_spans=reader.key_spans,
        )
    if report_open_places(problems) or (kernel is not None and not chosen):
        kernel = None
    return LoadedKernel(kernel, name, _name_span(document), tuple(problems.found), tuple(spaces))


def _shared(value: _Value) -> _Value:
    """Return the same value for what reads the same: a thousand kernel files have one operation."""
    if len(_known) >= SHARED:
        _known.clear()
    shared: _Value = _known.setdefault(repr(value), value)
    return shared


def read_described(
    problems: Problems, values: Mapping[str, Any], elsewhere: Mapping[str, str], files: NamedFiles
) -> tuple[Operation | None, list[Shape], bool]:
    """The operation and the shapes of a file, and whether both are without problems that keep a kernel from being
    used. `files` reads what the operation names."""
    operation = None
    if "operation" in values:
        operation = operations.read_operation(problems, values["operation"], elsewhere, files)
    outline = operation or operations.outline_of(values)
    shapes = read_shapes(problems, values["shape"], outline) if "shape" in values and outline is not None else []
    before = problems.errors_found
    if operation is not None:
        operation = read_array_files(problems, operation, shapes, files)
    usable = operation is not None and not problems.document.diagnostics and problems.errors_found == before
    return operation, shapes, usable


def with_checked_reference(problems: Problems, operation: Operation, parameters: Sequence[str]) -> Operation:
    """The operation, whose reference is checked to take only its arguments and `parameters` of instances."""
    if operation.reference is None:
        return operation
    arguments = (*_tensor_arguments(operation), *operation.size_arguments, *operation.runtime_arguments)
    return replace(
        operation, reference=check_arguments(problems, operation.reference, arguments, [*dict.fromkeys(parameters)])
    )


def _name_span(document: TomlDocument) -> Span:
    return document.span_of(("name",)) if "name" in document.values else document.beginning


def _is_wrong_kind(problems: Problems, operation: Any, template: str, search: TemplateSearch) -> bool:
    """Return True if a built-in template computes another kind of operation; all other errors then follow from that."""
    kind = operation.get("kind") if isinstance(operation, dict) else None
    kinds = operations.TEMPLATE_KINDS.get(template, ())
    if (
        not isinstance(kind, str)
        or kind not in operations.KINDS
        or not kinds
        or kind in kinds
        or search.find(template) != str(BUILT_IN / template)
    ):
        return False
    place = ("operation", "kind")
    named = " or ".join(f"`{one}`" for one in kinds)
    others = sorted(name for name, known in operations.TEMPLATE_KINDS.items() if kind == known[0])
    hint = f"; templates for `{kind}`: {join_names(others)}" if others else ""
    message = f"`{template}` is for operations of kind {named}, not `{kind}`{hint}"
    problems.at_value(place, "wrong-kind", message)
    return True


def _template(problems: Problems, name: Any, search: TemplateSearch) -> str | None:
    if not isinstance(name, str):
        return None
    place: KeyPath = ("template",)
    if (unseen := unseen_in(name)) is not None:
        problems.at_value(place, "invalid-name", f"`{name}` holds {unseen}, a character that cannot be seen")
        return None
    if search.find(name) is None:
        near = search.near(name)
        links = (broken_link(folder / name) for folder in search.folders)
        if link := next(filter(None, links), ""):
            problems.at_value(place, "missing-template", f"`{name}` is {link}")
            return None
        guess = f"did you mean `{near}`? " if near else ""
        folders = join_names(str(folder) for folder in search.folders)
        message = f"there is no template `{name}`; {guess}looked in: {folders}"
        fixes = (Fix(problems.document.span_of(place), f'"{near}"'),) if near else ()
        problems.at_value(place, "missing-template", message, fixes=fixes)
        return None
    if not name.endswith(TEMPLATE_SUFFIXES):
        message = f"`{name}` does not end in {', '.join(TEMPLATE_SUFFIXES)}, which says what it is compiled for"
        problems.at_value(place, "unknown-template-kind", message)
        return None
    return name


def _archs(
    problems: Problems, table: KernelTable | None, template: str | None, archs: Sequence[str]
) -> tuple[str, ...]:
    language = None if template is None else language_of(template)
    given = None if table is None else table.archs
    if given is None or language is None:
        return tuple(dict.fromkeys(given or archs)) if language is None else default_archs(archs, language)
    chosen = []
    for index, arch in enumerate(given):
        if arch_has_language(arch, language):
            chosen.append(arch)
        else:
            problems.at_value(("archs", index), "arch-mismatch", arch_mismatch(language))
    return tuple(dict.fromkeys(chosen))


def _with_split_k(operation: Operation, table: Any, shapes: list[Shape]) -> Operation:
    """Let an operation that is timed with kBatch above 1 split K, unless the file says otherwise."""
    if "split_k" not in operations.KINDS[operation.kind].table.model_fields or "split_k" in table:
        return operation
    splits = any(shape.runtime.get("kBatch", 1) > 1 for shape in shapes)
    return replace(operation, settings={**operation.settings, "split_k": splits})


def _tensor_arguments(operation: Operation) -> tuple[str, ...]:
    """The tensors that a reference gets: inputs, and outputs that hold something before a launch."""
    kept = (name for name, one in operation.outputs if one.in_out or one.partial)
    return (*(name for name, _ in operation.inputs), *kept)


def _names_of(operation: Operation | None) -> frozenset[str]:
    return frozenset(name for name, _ in (*operation.inputs, *operation.outputs)) if operation else frozenset()


def _read_instances(
    reader: ParameterReader, values: Mapping[str, Any], limits: LimitsSection, spaces: list[SweepPlan]
) -> list[Instance] | None:
    """The instances without problems; None where there is none because of problems. `spaces` are added to."""
    problems = reader.problems
    before = problems.errors_found
    defaults = reader.table(values["defaults"], ("defaults",)) if "defaults" in values else {}
    tables = {group: _tables(problems, values[group], group) for group in ("instance", "sweep") if group in values}
    if not any(values.get(group) for group in ("instance", "sweep")):
        message = (
            "the kernel has no instance; add [[instance]] with a `name` and the template's parameters, or [[sweep]]"
        )
        problems.add("no-instance", message, problems.document.beginning)
        return None
    roster = _InstanceList(problems)
    by_name: dict[str, Mapping[str, PlacedValue] | None] = {}
    nameless = False
    for path, table in tables.get("instance", ()):
        own = reader.table(table, path, ignore=frozenset({"name"}))
        name = _instance_name(problems, table, path)
        if name is None:
            nameless = True
            continue
        by_name.setdefault(name, own)
        if own is not None and defaults is not None:
            every = merge_tables(defaults, own)
            span = problems.document.span_of((*path, "name"))
            parameters = _shared({key: written.value for key, written in every.items()})
            spans = {key: written.span for key, written in every.items()}
            roster.add(Instance(name, parameters, span, spans))
        elif own is None:
            roster.reserve(name, problems.document.span_of((*path, "name")))
    roster.check_count(limits.instances)
    sweeps: list[SweepPlan] = []
    for path, table in tables.get("sweep", ()):
        # what was not read may be the instance that a sweep is based on
        all_named = not nameless and (bool(by_name) or not problems.errors_found)
        sweep = read_sweep(reader, table, path, defaults or {}, by_name, all_named=all_named)
        if sweep is not None and defaults is not None:
            sweeps.append(sweep)
    _sweep_names_once(problems, sweeps)
    for sweep in sweeps:
        if sweep.tune:
            spaces.append(sweep)
            continue
        found = expand_sweep(sweep, problems, limits, len(roster.instances))
        roster.add_swept(sweep, found)
    reader.report_mixed_types()
    if not roster.instances and problems.errors_found > before:
        return None
    return roster.instances


def _tables(problems: Problems, values: Any, group: str) -> list[tuple[KeyPath, dict[str, Any]]]:
    if not isinstance(values, list):
        problems.wrong_type((group,), f"an array of tables, written [[{group}]]", values)
        return [((group,), values)] if isinstance(values, dict) else []
    found: list[tuple[KeyPath, dict[str, Any]]] = []
    for index, table in enumerate(values):
        if isinstance(table, dict):
            found.append(((group, index), table))
        else:
            problems.wrong_type((group, index), f"a table, written [[{group}]]", table)
    return found


def _instance_name(problems: Problems, table: Mapping[str, Any], path: KeyPath) -> str | None:
    name = table.get("name")
    if name is None:
        problems.missing_key(path, "name", table, ())
        return None
    return name_at(problems, name, (*path, "name"))


def _sweep_names_once(problems: Problems, sweeps: Sequence[SweepPlan]) -> None:
    first: dict[str, SweepPlan] = {}
    for sweep in sweeps:
        if sweep.name in first:
            message = f"two sweeps are called `{sweep.name}`; their instances may get one name"
            related = Related("first given here", problems.document.span_of((*first[sweep.name].path, "name")))
            place = (*sweep.path, "name")
            problems.at_value(place, "duplicate-sweep", message, severity=Severity.WARNING, related=(related,))
        first.setdefault(sweep.name, sweep)


class _InstanceList:
    """The instances of a file: every name once, and a warning about equal parameters."""

    def __init__(self, problems: Problems) -> None:
        self.instances: list[Instance] = []
        self._problems = problems
        self._names: dict[str, Span] = {}
        self._by_parameters: dict[object, Instance] = {}

    def reserve(self, name: str, span: Span) -> None:
        """Take the name of an instance with problems, too."""
        self._names.setdefault(name, span)

    def add(self, instance: Instance) -> None:
        """Take an instance that is written out; report a name that is taken, and parameters that are."""
        if not self._take_name(instance, f"two instances are called `{instance.name}`"):
            return
        same = self._by_parameters.setdefault(identity(instance.parameters), instance)
        if same is not instance:
            message = f"`{instance.name}` has the same parameters as `{same.name}`: they are compiled once"
            self._warn_of_same(message, instance.span, same)

    def add_swept(self, sweep: SweepPlan, instances: Sequence[Instance]) -> None:
        """Take a sweep's instances; one warning counts those whose parameters are taken."""
        repeated: list[tuple[Instance, Instance]] = []
        for instance in instances:
            message = f"sweep `{sweep.name}` makes an instance `{instance.name}`, a name that is taken"
            if self._take_name(instance, message):
                same = self._by_parameters.setdefault(identity(instance.parameters), instance)
                if same is not instance:
                    repeated.append((instance, same))
        if repeated:
            instance, same = repeated[0]
            message = f"{len(repeated)} of {len(instances)} instances of sweep `{sweep.name}` have the same parameters "
            message += f"as others and are compiled once: `{instance.name}` equals `{same.name}`"
            self._warn_of_same(message, instance.span, same)

    def check_count(self, limit: int) -> None:
        """Refuse a file that writes out more instances than the limit allows."""
        if len(self.instances) > limit:
            message = (
                f"the file has {len(self.instances):,} instances; the limit is {limit:,}: raise `instances` under "
            )
            message += "[limits] in ckwatch.toml"
            self._problems.add("too-many-instances", message, self.instances[limit].span)
            del self.instances[limit:]

    def _take_name(self, instance: Instance, message: str) -> bool:
        first = self._names.get(instance.name)
        if first is not None:
            related = (Related("first given here", first),)
            self._problems.add("duplicate-instance", message, instance.span, related=related)
            return False
        self._names[instance.name] = instance.span
        self.instances.append(instance)
        return True

    def _warn_of_same(self, message: str, span: Span, same: Instance) -> None:
        related = (Related(f"`{same.name}` is here", same.span),)
        self._problems.add("duplicate-parameters", message, span, severity=Severity.WARNING, related=related)
