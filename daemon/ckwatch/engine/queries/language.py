"""Questions of editors: vocabulary, templates, readers of a file, and which values of a parameter are accepted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from anyio import to_thread

from ckwatch.checks.rules.candidates import candidate_values, check_candidates, instance_errors, nearest_first
from ckwatch.checks.rules.instances import RenderedInstance, rendered_instances
from ckwatch.checks.rules.reference import parameter_description
from ckwatch.checks.rules.rule import Violation
from ckwatch.core.events import MAIN
from ckwatch.core.unit_state import UnitState
from ckwatch.engine.handlers.load import ViewLoader
from ckwatch.engine.handlers.render import RenderHandler
from ckwatch.engine.loop import EngineLoop
from ckwatch.engine.queries.unit_lookup import UnitLookup
from ckwatch.model.diagnostics import Severity
from ckwatch.model.errors import CkwatchError, UnknownUnitError
from ckwatch.model.kernels import ParameterValue as Parameter
from ckwatch.model.kernels import Unit
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.wire.language import ParameterValue, TemplateDetail, TemplateName, Vocabulary
from ckwatch.workspace.loading import Workspace
from ckwatch.workspace.parameters import ARTICLE, as_parameter, as_toml, kind_of
from ckwatch.workspace.template_search import TEMPLATE_SUFFIXES, TemplateSearch


@dataclass(eq=False)
class LanguageQueries:
    """Questions of editors besides states."""

    _loop: EngineLoop
    _view_loader: ViewLoader
    _renders: RenderHandler
    _lookup: UnitLookup
    _vocabulary: Vocabulary | None = field(default=None, init=False)

    async def vocabulary(self) -> Vocabulary:
        """The words of templates, and the keys of kernel files and settings."""
        if self._vocabulary is None:
            self._vocabulary = await to_thread.run_sync(_vocabulary)
        return self._vocabulary

    async def templates(self, scope: str) -> list[TemplateName]:
        """Every template that a kernel file could name."""
        folders = (await self._workspace(scope)).template_folders
        found = await to_thread.run_sync(_template_files, folders, self._overlays(scope))
        return [TemplateName(name=name, path=path) for name, path in found.items()]

    async def template(self, scope: str, name: str | None, path: str | None) -> TemplateDetail:
        """A template by its name, or by its file's path. Raises CkwatchError where there is none."""
        folders = (await self._workspace(scope)).template_folders
        if name is None and path is not None:
            name = next(iter(_names_of(path, folders)), None)
        if name is None:
            raise CkwatchError(f"{path or 'nothing'} is in no template folder", _searched(list(map(str, folders))))
        members = self._loop.state.members(scope)
        units = [unit for unit, member in members.items() if member.kernel.template == name]
        operations = {id(member.kernel): member.kernel.operation for member in members.values()}
        tensors = {tensor for one in operations.values() for tensor, _ in (*one.inputs, *one.outputs)}
        found = await to_thread.run_sync(_template_detail, name, folders, self._overlays(scope), tensors, units)
        if found is None:
            raise CkwatchError(f"there is no template '{name}'", _searched(list(map(str, folders))))
        return found

    async def readers(self, scope: str, path: str) -> list[str]:
        """The units that read a file: as a template or header when they were last made, or as their kernel file."""
        return (await self.readers_of(scope, [path]))[0]

    async def readers_of(self, scope: str, paths: Sequence[str]) -> list[list[str]]:
        """The same for each of several files."""
        await self._lookup.loaded()
        graph = self._loop.state.graph
        members = self._loop.state.members(scope)
        order = {name: at for at, name in enumerate(members)}
        in_file: dict[str, list[str]] = {}
        for name, unit in members.items():
            in_file.setdefault(unit.kernel.path, []).append(name)
        found = []
        for path in paths:
            readers = (*graph.readers(path), *graph.includers(path))
            seen = {key.unit for key in readers if key.scope in (MAIN, scope) and key.unit in order}
            found.append(sorted(seen.union(in_file.get(path, ())), key=order.__getitem__))
        return found

    async def values(
        self,
        scope: str,
        unit: str,
        parameter: str,
        values: Sequence[Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> list[ParameterValue]:
        """A parameter's values as the instance rules judge them: accepted ones first, then the nearest. Raises
        UnknownUnitError."""
        name = await self._lookup.id_of(scope, unit)
        state = self._loop.state.seen(scope, name) or self._loop.state.seen(MAIN, name)
        if state is None:
            raise UnknownUnitError(f"no unit is called '{unit}'")
        instance = state.unit
        if parameters is not None:
            given = {name: value for name, one in parameters.items() if (value := _from_json(one)) is not None}
            instance = with_parameters(instance, given)
        text = await self.text(state, instance, scope)
        emitted = () if text is None else await to_thread.run_sync(rendered_instances, text)
        present = instance.instance.parameters.get(parameter)
        asked, invalid = self._asked(parameter, values, instance, emitted)
        judged = None
        if text is not None and present is not None:
            judged = await to_thread.run_sync(check_candidates, emitted, text, instance.arch, parameter, present, asked)
        if judged is not None:
            found = {_typed(one.value): _parameter_value(one.value, one.refused_by) for one in judged}
        else:
            known = () if text is None else await to_thread.run_sync(instance_errors, emitted, text, instance.arch)
            found = {_typed(value): await self._tried(instance, parameter, value, known, scope) for value in asked}
        accepted = [value for value in asked if found[_typed(value)].accepted]
        times = await to_thread.run_sync(_predicted_times, instance, parameter, accepted)
        for typed, time_us in times.items():
            found[typed] = replace(found[typed], predicted_us=time_us)
        ordered = [found[_typed(value)] for value in nearest_first(asked, present)]
        return [*sorted(ordered, key=lambda one: not one.accepted), *invalid]

    def _asked(
        self, parameter: str, values: Sequence[Any] | None, unit: Unit, emitted: Sequence[RenderedInstance]
    ) -> tuple[list[Parameter], list[ParameterValue]]:
        """The values to judge, and the answers for those that no parameter can have."""
        if values is None:
            return considered_values(unit, parameter, emitted), []
        asked: dict[object, Parameter] = {}
        invalid = []
        for one in values:
            value = _from_json(one)
            if value is None:
                kinds = ", ".join(ARTICLE.values())
                invalid.append(ParameterValue(value=one, accepted=False, why_not=f"a parameter is {kinds} of integers"))
            else:
                asked.setdefault(_typed(value), value)
        return list(asked.values()), invalid

    async def text(self, state: UnitState, unit: Unit, scope: str) -> str | None:
        """The text of `unit`, which is the state's or has other parameters; None where its template has errors."""
        if unit is not state.unit:
            return (await self.rendered(unit, scope))[0]
        view = self._loop.state.views[state.key.scope]
        generation, overlays = state.input.generation, dict(view.overlays)
        text = await self._renders.text(state.key, generation, unit, overlays, view.options)
        return None if text is None else text.text

    async def _tried(
        self, unit: Unit, parameter: str, value: Parameter, known: Sequence[Violation], scope: str
    ) -> ParameterValue:
        """The answer for a value, by rendering the unit with it."""
        changed = with_parameters(unit, {**unit.instance.parameters, parameter: value})
        text, problem = await self.rendered(changed, scope)
        if text is None:
            return ParameterValue(value=_to_json(value), accepted=False, why_not=problem)
        found = await to_thread.run_sync(lambda: instance_errors(rendered_instances(text), text, unit.arch))
        before = {one.rule for one in known}
        return _parameter_value(value, [one for one in found if one.rule not in before or parameter in one.parameters])

    async def rendered(self, unit: Unit, scope: str) -> tuple[str | None, str]:
        """The text of a unit that the state need not know, or None and why there is none."""
        workspace = self._view_loader.workspace(scope)
        outcome = await self._renders.unchecked(workspace, unit, self._overlays(scope))
        if outcome.rendered is not None:
            return outcome.rendered.text, ""
        errors = [one.message for one in outcome.diagnostics if one.severity is Severity.ERROR]
        return None, next(iter(errors), "the template cannot be rendered")

    def _overlays(self, scope: str) -> Mapping[str, str]:
        view = self._loop.state.views.get(scope)
        return {} if view is None else dict(view.overlays)

    async def _workspace(self, scope: str) -> Workspace:
        await self._lookup.loaded()
        problem = self._loop.state.main.problem
        if problem is not None:
            raise CkwatchError(problem)
        return self._view_loader.workspace(scope)


# Jinja2 takes a tenth of a second to load. A daemon needs it only for editors: renders run in other processes.


def _names_of(path: str, folders: Sequence[Path]) -> list[str]:
    """The names of the template at `path`, one for each folder of the search path that holds it."""
    place = Path(path)
    return [place.relative_to(folder).as_posix() for folder in folders if place.is_relative_to(folder)]


def _template_files(folders: Sequence[Path], overlays: Mapping[str, str]) -> dict[str, str]:
    """Every template that a kernel file could name, with its file, in order of the search path. Blocks; call from a
    worker thread."""
    search = TemplateSearch(folders, overlays)
    found = {name: search.find(name) for name in search.names() if name.endswith(TEMPLATE_SUFFIXES)}
    return {name: path for name, path in found.items() if path is not None}


def _template_detail(
    name: str, folders: Sequence[Path], overlays: Mapping[str, str], tensors: Iterable[str], units: Sequence[str]
) -> TemplateDetail | None:
    from ckwatch.engine.queries.language_templates import template_detail

    return template_detail(name, folders, overlays, tensors, units)


def _vocabulary() -> Vocabulary:
    from ckwatch.engine.queries import language_vocabulary

    return Vocabulary(
        hooks=language_vocabulary.hooks(),
        filters=language_vocabulary.filters(),
        tests=language_vocabulary.tests(),
        globals=language_vocabulary.global_names(),
        tags=language_vocabulary.tags(),
        kernel_file=language_vocabulary.kernel_file_keys(),
        settings=language_vocabulary.settings_keys(),
    )


def considered_values(unit: Unit, parameter: str, emitted: Iterable[RenderedInstance]) -> list[Parameter]:
    """The values that a parameter of the unit may have, or some near its own. `emitted`: what its text instantiates."""
    operations = (parameter_description(one.device_operation, parameter) for one in emitted)
    allowed = next((one.values for one in operations if one is not None), ())
    others = [one.parameters[parameter] for one in unit.kernel.instances if parameter in one.parameters]
    return candidate_values(unit.instance.parameters.get(parameter), allowed, others)


def _predicted_times(unit: Unit, parameter: str, values: Sequence[Parameter]) -> dict[tuple[type, Parameter], float]:
    """The predicted times of the unit with each of the values on its kernel's first shape, as far as there are any."""
    from ckwatch.model.kernel_problem import problem_of  # as above
    from ckwatch.prediction.predict import target_of
    from ckwatch.prediction.ranking import RankingCandidate, rank

    target = target_of(unit.arch, "") if unit.arch.startswith("gfx") else None
    shape = next(iter(unit.kernel.shapes), None)
    if target is None or shape is None:
        return {}
    given = unit.instance.parameters
    entries = [
        RankingCandidate(name=str(at), parameters={**given, parameter: value}) for at, value in enumerate(values)
    ]
    rows = rank(entries, problem_of(unit.kernel.operation, shape, unit.arch), target)
    return {_typed(values[int(row.name)]): row.prediction.time_us for row in rows if row.prediction.time_us is not None}


def with_parameters(unit: Unit, parameters: Mapping[str, Parameter]) -> Unit:
    """The unit with these parameters."""
    return replace(unit, instance=replace(unit.instance, parameters=dict(parameters)))


def _from_json(value: Any) -> Parameter | None:
    """A value from JSON as a parameter; None where it can be none."""
    value = as_toml(value)
    return None if kind_of(value) is None else as_parameter(value)


def _typed(value: Parameter) -> tuple[type, Parameter]:
    return type(value), value


def _to_json(value: Parameter) -> Any:
    return as_toml(value)


def _parameter_value(value: Parameter, refused_by: Sequence[Violation]) -> ParameterValue:
    return ParameterValue(
        value=_to_json(value),
        accepted=not refused_by,
        why_not="\n".join(one.message for one in refused_by),
        refused_by=tuple(one.rule for one in refused_by),
    )


def _searched(folders: Sequence[str]) -> str:
    return f"looked in: {', '.join(folders)}"
