"""Evaluates Python modules that only make lists: assignments, loops, functions and dataclasses over plain values.

Others' modules are never run: this walks their syntax tree. It knows numbers, text, containers, classes and functions
of the module, and the methods and built-ins named here; there is no way from these to files, processes or Python's own
objects. Steps and sizes are bounded. A statement that needs anything else is left out, with every name that it
mentions: what depends on them is unknown, never wrong.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import field
from typing import Any

from ckwatch.model.lazy_dataclass import dataclass

STEPS = 20_000_000
"""Most nodes of a module's syntax tree that are evaluated."""

MOST_ITEMS = 50_000
_MOST_BITS = 4096
_DEEPEST = 40
_LONGEST_SEPARATOR = 100
_MOST_ZIPPED = 100


class UnknownPythonError(ValueError):
    """A value cannot be known; the message says which."""


class _Break(UnknownPythonError):  # noqa: N818  # how a loop ends; elsewhere it is no Python
    pass


class _Continue(UnknownPythonError):  # noqa: N818
    pass


class _Returned(UnknownPythonError):  # noqa: N818
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


@dataclass(frozen=True, slots=True)
class PythonClass:
    """A class of the module: its `fields` with their defaults, and what else it defines."""

    name: str
    fields: Mapping[str, Callable[[], Any] | None]
    functions: Mapping[str, Callable[..., Any]]
    properties: frozenset[str]

    def __call__(self, *given: Any, **named: Any) -> PythonInstance:
        """Return an instance as a dataclass makes it."""
        if len(given) > len(self.fields):
            raise UnknownPythonError(f"{self.name} has {len(self.fields)} fields, not {len(given)}")
        values = dict(zip(self.fields, given, strict=False))
        if not named.keys() <= self.fields.keys() - values.keys():
            raise UnknownPythonError(f"{self.name} has no such fields")
        values |= named
        for name, default in self.fields.items():
            if name not in values:
                if default is None:
                    raise UnknownPythonError(f"{self.name} has no {name}")
                values[name] = default()
        return PythonInstance(self, {name: values[name] for name in self.fields})

    def __deepcopy__(self, _: Any) -> PythonClass:
        return self


@dataclass(slots=True)
class PythonInstance:
    """An instance of a class of the module."""

    kind: PythonClass
    fields: dict[str, Any]

    def attribute(self, name: str) -> Any:
        """Return a field, a property or a method. Raises UnknownPythonError."""
        if name in self.fields:
            return self.fields[name]
        function = self.kind.functions.get(name)
        if function is None:
            raise UnknownPythonError(f"{self.kind.name} has no {name}")
        return (
            function(self) if name in self.kind.properties else lambda *given, **named: function(self, *given, **named)
        )


_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        {"join", "lower", "upper", "startswith", "endswith", "split", "strip", "removeprefix", "removesuffix"}
    ),
    dict: frozenset({"items", "keys", "values", "get", "update", "setdefault", "copy", "pop"}),
    list: frozenset({"append", "extend", "insert", "index", "copy", "sort", "pop"}),
    tuple: frozenset({"index", "count"}),
    set: frozenset({"add", "update", "union", "copy", "discard"}),
    frozenset: frozenset({"union", "copy"}),
}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
}
_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, among: one in among,
    ast.NotIn: lambda one, among: one not in among,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FAULTS = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, StopIteration, RuntimeError)

Scope = MutableMapping[str, Any]
Modules = Mapping[str, Mapping[str, Any]]


def evaluate_lists(text: str, modules: Modules, steps: int = STEPS) -> Mapping[str, Any]:
    """Return the values of a module's names, of those that can be known. Raises UnknownPythonError for no Python.

    `modules` are those that it may import, by their names' last parts, with the values that it may import from them.
    At most so many `steps` are taken, each a node of the syntax tree.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnknownPythonError(f"it is not Python: {error}") from None
    return _Evaluator(modules, steps).module(tree)


def _copied(value: Any) -> Any:
    return PythonInstance(value.kind, dict(value.fields)) if isinstance(value, PythonInstance) else copy.copy(value)


def _replaced(value: PythonInstance, **changes: Any) -> PythonInstance:
    return value.kind(**value.fields | changes)


def _field(*, default: Any = None, default_factory: Callable[[], Any] | None = None) -> Callable[[], Any]:
    return default_factory if default_factory is not None else lambda: default


def _attribute(value: Any, name: str, *default: Any) -> Any:
    if isinstance(value, PythonInstance):
        try:
            return value.attribute(name)
        except UnknownPythonError:
            if default:
                return default[0]
            raise
    if isinstance(value, Mapping) and not isinstance(value, dict):
        return value[name]  # a module
    if name in _METHODS.get(type(value), ()):
        if name == "join" and len(value) > _LONGEST_SEPARATOR:
            raise UnknownPythonError("a separator is too long")
        return getattr(value, name)
    raise UnknownPythonError(f"`.{name}` is not known")


def _set_attribute(value: Any, name: str, new: Any) -> None:
    if not isinstance(value, PythonInstance):
        raise UnknownPythonError(f"`.{name}` cannot be set")
    value.fields[name] = new


def _variables(value: PythonInstance) -> dict[str, Any]:
    return dict(value.fields)


def _range(*bounds: int) -> range:
    found = range(*bounds)
    if len(found) > MOST_ITEMS:
        raise UnknownPythonError("a range is too long")
    return found


def _zip(*given: Any, strict: bool = False) -> Any:
    if len(given) > _MOST_ZIPPED:
        raise UnknownPythonError("too many values are zipped")
    return zip(*given, strict=strict)


def _plain_text(value: Any = "") -> str:
    if not isinstance(value, str | int | float | None):
        raise UnknownPythonError("only plain values are written as text")
    return str(value)


_BUILTINS: Mapping[str, Any] = {
    **{one.__name__: one for one in (int, float, bool, list, dict, tuple, set, frozenset, len, min, max, abs, sum)},
    **{one.__name__: one for one in (enumerate, map, sorted, any, all, next, iter, reversed, filter, round)},
    "str": _plain_text,
    "zip": _zip,
    "range": _range,
    "getattr": _attribute,
    "setattr": _set_attribute,
    "vars": _variables,
}
_LIBRARY: Modules = {
    "dataclasses": {"dataclass": None, "field": _field, "replace": _replaced},
    "copy": {"copy": _copied, "deepcopy": copy.deepcopy},
}


class _Module(Mapping[str, Any]):
    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(slots=True)
class _Evaluator:
    modules: Modules
    steps: int
    depth: int = 0
    values: dict[str, Any] = field(default_factory=dict)

    def module(self, tree: ast.Module) -> Mapping[str, Any]:
        for statement in tree.body:
            try:
                self.run(statement, self.values)
            except (UnknownPythonError, RecursionError):
                for name in _mentioned(statement):
                    self.values.pop(name, None)
        return self.values

    def run(self, node: ast.stmt, scope: Scope) -> None:
        run = _STATEMENTS.get(type(node))
        if run is None:
            raise UnknownPythonError(f"line {node.lineno} is not a statement of a list")
        run(self, node, scope)

    def body(self, statements: Iterable[ast.stmt], scope: Scope) -> None:
        for one in statements:
            self.run(one, scope)

    def value(self, node: ast.expr, scope: Scope) -> Any:
        self.steps -= 1
        if self.steps < 0:
            raise UnknownPythonError("it takes too long")
        evaluate = _EXPRESSIONS.get(type(node))
        if evaluate is None:
            raise UnknownPythonError(f"line {node.lineno} is not an expression of a list")
        try:
            found = evaluate(self, node, scope)
        except UnknownPythonError:
            raise
        except _FAULTS as error:
            raise UnknownPythonError(f"line {node.lineno}: {error}") from None
        if isinstance(found, str | list | tuple | dict | set | frozenset):
            if len(found) > MOST_ITEMS:
                raise UnknownPythonError(f"line {node.lineno} makes too large a value")
        elif isinstance(found, int) and found.bit_length() > _MOST_BITS:
            raise UnknownPythonError(f"line {node.lineno} makes too large a number")
        return found

    def assign(self, target: ast.expr, value: Any, scope: Scope) -> None:
        if isinstance(target, ast.Name):
            scope[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            values = list(value)
            if len(values) != len(target.elts):
                raise UnknownPythonError(f"line {target.lineno} assigns {len(values)} values")
            for one, each in zip(target.elts, values, strict=True):
                self.assign(one, each, scope)
        elif isinstance(target, ast.Subscript):
            container = self.value(target.value, scope)
            if not isinstance(container, dict | list):
                raise UnknownPythonError(f"line {target.lineno} assigns to an unknown value")
            container[self.value(target.slice, scope)] = value
        elif isinstance(target, ast.Attribute):
            _set_attribute(self.value(target.value, scope), target.attr, value)
        else:
            raise UnknownPythonError(f"line {target.lineno} assigns to an unknown value")

    def function(self, arguments: ast.arguments, scope: Scope, run: Callable[[Scope], Any]) -> Callable[..., Any]:
        positional = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        defaults = [self.value(one, scope) for one in arguments.defaults]
        known = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True)) | {
            one.arg: self.value(default, scope)
            for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
            if default is not None
        }
        names = {*positional, *(one.arg for one in arguments.kwonlyargs)}

        def call(*given: Any, **named: Any) -> Any:
            local = known | dict(zip(positional, given, strict=False))
            rest, others = given[len(positional) :], {name: named[name] for name in named.keys() - names}
            if (rest and arguments.vararg is None) or (others and arguments.kwarg is None):
                raise UnknownPythonError("a function is called with too many arguments")
            local |= {name: named[name] for name in named.keys() & names}
            if arguments.vararg is not None:
                local[arguments.vararg.arg] = rest
            if arguments.kwarg is not None:
                local[arguments.kwarg.arg] = others
            if self.depth > _DEEPEST:
                raise UnknownPythonError("functions call each other too deeply")
            self.depth += 1
            try:
                return run(ChainMap(local, scope))
            finally:
                self.depth -= 1

        return call

    def rounds(self, generators: list[ast.comprehension], scope: Scope) -> Iterable[Scope]:
        if not generators:
            yield scope
            return
        first, *others = generators
        for one in self.value(first.iter, scope):
            inner: Scope = ChainMap({}, scope)
            self.assign(first.target, one, inner)
            if all(self.value(condition, inner) for condition in first.ifs):
                yield from self.rounds(others, inner)


def _mentioned(statement: ast.stmt) -> set[str]:
    """The names that a statement binds or may change."""
    found = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
    return found | {node.name for node in (statement,) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _import(self: _Evaluator, node: ast.Import, scope: Scope) -> None:
    for one in node.names:
        module = _LIBRARY.get(one.name) or self.modules.get(one.name.rpartition(".")[2])
        if module is not None:
            scope[one.asname or one.name.partition(".")[0]] = _Module(module)


def _import_from(self: _Evaluator, node: ast.ImportFrom, scope: Scope) -> None:
    name = node.module or ""
    module = _LIBRARY.get(name) or self.modules.get(name.rpartition(".")[2], {})
    for one in node.names:
        scope.pop(one.asname or one.name, None)
        if one.name in module:
            scope[one.asname or one.name] = module[one.name]


def _class(self: _Evaluator, node: ast.ClassDef, scope: Scope) -> None:
    if node.bases or node.keywords:
        raise UnknownPythonError(f"line {node.lineno} is not a dataclass")
    fields: dict[str, Callable[[], Any] | None] = {}
    functions: dict[str, Callable[..., Any]] = {}
    properties: set[str] = set()
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            default = None if one.value is None else self.value(one.value, scope)
            fields[one.target.id] = default if callable(default) or one.value is None else _constant(default)
        elif isinstance(one, ast.FunctionDef):
            functions[one.name] = _defined(self, one, scope)
            if any(isinstance(each, ast.Name) and each.id == "property" for each in one.decorator_list):
                properties.add(one.name)
        elif not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)):
            raise UnknownPythonError(f"line {one.lineno} is no field")
    scope[node.name] = PythonClass(node.name, fields, functions, frozenset(properties))


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _defined(self: _Evaluator, node: ast.FunctionDef, scope: Scope) -> Callable[..., Any]:
    def run(local: Scope) -> Any:
        try:
            self.body(node.body, local)
        except _Returned as returned:
            return returned.value
        return None

    return self.function(node.args, scope, run)


def _def(self: _Evaluator, node: ast.FunctionDef, scope: Scope) -> None:
    scope[node.name] = _defined(self, node, scope)


def _for(self: _Evaluator, node: ast.For, scope: Scope) -> None:
    def turns() -> Iterator[None]:
        for one in self.value(node.iter, scope):
            self.assign(node.target, one, scope)
            yield

    _loop(self, node, scope, turns())


def _while(self: _Evaluator, node: ast.While, scope: Scope) -> None:
    _loop(self, node, scope, iter(lambda: bool(self.value(node.test, scope)), False))


def _loop(self: _Evaluator, node: ast.For | ast.While, scope: Scope, turns: Iterable[object]) -> None:
    for _ in turns:
        try:
            self.body(node.body, scope)
        except _Break:
            return
        except _Continue:
            continue
    self.body(node.orelse, scope)


def _augmented(self: _Evaluator, node: ast.AugAssign, scope: Scope) -> None:
    load = copy.copy(node.target)
    self.assign(node.target, _operated(node.op, self.value(load, scope), self.value(node.value, scope)), scope)


def _break(_self: _Evaluator, _node: ast.Break, _scope: Scope) -> None:
    raise _Break


def _continue(_self: _Evaluator, _node: ast.Continue, _scope: Scope) -> None:
    raise _Continue


def _return(self: _Evaluator, node: ast.Return, scope: Scope) -> None:
    raise _Returned(None if node.value is None else self.value(node.value, scope))


def _operated(kind: ast.operator, left: Any, right: Any) -> Any:
    run = _BINARY.get(type(kind))
    if run is None or (isinstance(kind, ast.Mod) and isinstance(left, str)):
        raise UnknownPythonError("an operator is not known")
    if isinstance(kind, ast.Mult):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str | list | tuple) and isinstance(other, int) and len(one) * other > MOST_ITEMS:
                raise UnknownPythonError("a product is too large")
    return run(left, right)


def _name(_: _Evaluator, node: ast.Name, scope: Scope) -> Any:
    if node.id in scope:
        return scope[node.id]
    if node.id in _BUILTINS:
        return _BUILTINS[node.id]
    raise UnknownPythonError(f"`{node.id}` is not known")


def _call(self: _Evaluator, node: ast.Call, scope: Scope) -> Any:
    function = self.value(node.func, scope)
    given = _items(self, node.args, scope)
    named: dict[str, Any] = {}
    for one in node.keywords:
        value = self.value(one.value, scope)
        named |= value if one.arg is None else {one.arg: value}
    if not callable(function):
        raise UnknownPythonError(f"line {node.lineno} calls an unknown function")
    return function(*given, **named)


def _items(self: _Evaluator, nodes: Iterable[ast.expr], scope: Scope) -> list[Any]:
    found: list[Any] = []
    for one in nodes:
        if isinstance(one, ast.Starred):
            found.extend(self.value(one.value, scope))
        else:
            found.append(self.value(one, scope))
    return found


def _dict(self: _Evaluator, node: ast.Dict, scope: Scope) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found |= self.value(value, scope)
        else:
            found[self.value(key, scope)] = self.value(value, scope)
    return found


def _joined(self: _Evaluator, node: ast.JoinedStr, scope: Scope) -> str:
    parts = []
    for one in node.values:
        if isinstance(one, ast.FormattedValue):
            if one.format_spec is not None or one.conversion != -1:
                raise UnknownPythonError(f"line {one.lineno} has a format")
            parts.append(_plain_text(self.value(one.value, scope)))
        else:
            parts.append(str(self.value(one, scope)))
    return "".join(parts)


def _compare(self: _Evaluator, node: ast.Compare, scope: Scope) -> bool:
    left = self.value(node.left, scope)
    for kind, right_node in zip(node.ops, node.comparators, strict=True):
        right = self.value(right_node, scope)
        if not _COMPARED[type(kind)](left, right):
            return False
        left = right
    return True


def _bool(self: _Evaluator, node: ast.BoolOp, scope: Scope) -> Any:
    ends = isinstance(node.op, ast.Or)
    found = None
    for one in node.values:
        found = self.value(one, scope)
        if bool(found) is ends:
            break
    return found


def _subscript(self: _Evaluator, node: ast.Subscript, scope: Scope) -> Any:
    value = self.value(node.value, scope)
    if not isinstance(value, dict | list | tuple | str | range):
        raise UnknownPythonError(f"line {node.lineno} takes a part of an unknown value")
    if isinstance(node.slice, ast.Slice):
        bounds = (node.slice.lower, node.slice.upper, node.slice.step)
        return value[slice(*(None if one is None else self.value(one, scope) for one in bounds))]
    return value[self.value(node.slice, scope)]


def _lambda(self: _Evaluator, node: ast.Lambda, scope: Scope) -> Callable[..., Any]:
    return self.function(node.args, scope, lambda local: self.value(node.body, local))


def _comprehension(kind: Callable[[Iterable[Any]], Any]) -> Callable[[_Evaluator, Any, Scope], Any]:
    return lambda self, node, scope: kind(self.value(node.elt, one) for one in self.rounds(node.generators, scope))


def _dict_comprehension(self: _Evaluator, node: ast.DictComp, scope: Scope) -> dict[Any, Any]:
    return {self.value(node.key, one): self.value(node.value, one) for one in self.rounds(node.generators, scope)}


_STATEMENTS: Mapping[type[ast.stmt], Callable[[_Evaluator, Any, Scope], None]] = {
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.ClassDef: _class,
    ast.FunctionDef: _def,
    ast.For: _for,
    ast.While: _while,
    ast.AugAssign: _augmented,
    ast.Return: _return,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Pass: lambda _self, _node, _scope: None,
    ast.Expr: lambda self, node, scope: self.value(node.value, scope),
    ast.If: lambda self, node, scope: self.body(node.body if self.value(node.test, scope) else node.orelse, scope),
    ast.Assign: lambda self, node, scope: _assign_all(self, node.targets, self.value(node.value, scope), scope),
    ast.AnnAssign: lambda self, node, scope: (
        None if node.value is None else self.assign(node.target, self.value(node.value, scope), scope)
    ),
    ast.Assert: lambda _self, _node, _scope: None,
}
_EXPRESSIONS: Mapping[type[ast.expr], Callable[[_Evaluator, Any, Scope], Any]] = {
    ast.Constant: lambda _, node, __: node.value,
    ast.Name: _name,
    ast.Call: _call,
    ast.Dict: _dict,
    ast.JoinedStr: _joined,
    ast.Compare: _compare,
    ast.BoolOp: _bool,
    ast.Subscript: _subscript,
    ast.Lambda: _lambda,
    ast.List: lambda self, node, scope: _items(self, node.elts, scope),
    ast.Tuple: lambda self, node, scope: tuple(_items(self, node.elts, scope)),
    ast.Set: lambda self, node, scope: set(_items(self, node.elts, scope)),
    ast.Attribute: lambda self, node, scope: _attribute(self.value(node.value, scope), node.attr),
    ast.BinOp: lambda self, node, scope: _operated(
        node.op, self.value(node.left, scope), self.value(node.right, scope)
    ),
    ast.UnaryOp: lambda self, node, scope: _UNARY[type(node.op)](self.value(node.operand, scope)),
    ast.IfExp: lambda self, node, scope: self.value(node.body if self.value(node.test, scope) else node.orelse, scope),
    ast.ListComp: _comprehension(list),
    ast.SetComp: _comprehension(set),
    ast.GeneratorExp: _comprehension(list),
    ast.DictComp: _dict_comprehension,
}


def _assign_all(self: _Evaluator, targets: Iterable[ast.expr], value: Any, scope: Scope) -> None:
    for one in targets:
        self.assign(one, value, scope)
