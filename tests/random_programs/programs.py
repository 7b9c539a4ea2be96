"""Random programs: kernels without undefined behaviour whose every output byte is known, as text for device and host.

A kernel is a tree of statements over variables that are all declared at its head, so that any statement can be left
out, which is how a difference is made small. Barriers, LDS and shuffles stand where all threads come by.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

THREADS = 128
GROUPS = 2
STRIPE_BYTES = 768
"""Of the output, of each thread: the first STRIPE_SLOTS of 16 bytes are for the body, then come the variables."""

STRIPE_SLOTS = 16
COUNTERS = 64
INPUT_BYTES = 1 << 14

UNSIGNED = ("u8", "u16", "u32", "u64")
SIGNED = ("i8", "i16", "i32", "i64")
INTEGERS = (*UNSIGNED, *SIGNED)
FLOATS = ("f16", "bf16", "f32", "f64")
SCALARS = (*INTEGERS, *FLOATS)
BITS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64} | {
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
}


class Vector(NamedTuple):
    """`element` times `length`."""

    element: str
    length: int


VECTORS = {
    "u32x2": Vector("u32", 2),
    "u32x4": Vector("u32", 4),
    "u16x2": Vector("u16", 2),
    "u16x4": Vector("u16", 4),
    "i16x2": Vector("i16", 2),
    "u8x4": Vector("u8", 4),
    "f16x2": Vector("f16", 2),
    "f32x2": Vector("f32", 2),
}
BYTES = {name: bits // 8 for name, bits in BITS.items()} | {
    name: BITS[each.element] // 8 * each.length for name, each in VECTORS.items()
}
RECORD_MEMBERS = {"a": "i8", "b": "u32", "c": "u16", "d": "u64", "e": "f32", "f": "f16"}
_PLACE = re.compile(r"@\(([\w?=]*)\)")
_FLOAT_CONSTANTS = ("0.f", "1.f", "-1.f", "0.5f", "3.f", "-7.25f", "1e-3f", "65504.f", "1e30f", "1e-30f")


@dataclass(eq=False)
class Statement:
    """A statement: `head`, what is in it, `tail`. `plain`: a simpler form, tried when a difference is made small."""

    head: str
    inner: list[Statement] = field(default_factory=list)
    tail: str = ""
    plain: str = ""

    def text(
        self,
        without: AbstractSet[Statement] = frozenset(),
        plain: AbstractSet[Statement] = frozenset(),
        indent: str = "  ",
    ) -> str:
        """Return the lines of the statement, but for those `without`."""
        if self in without:
            return ""
        lines = f"{indent}{self.plain if self in plain else self.head}\n"
        lines += "".join(each.text(without, plain, indent + "  ") for each in self.inner)
        return lines + (f"{indent}{self.tail}\n" if self.tail else "")

    def all(self) -> Iterator[Statement]:
        """Yield the statement and those in it, outer ones first."""
        yield self
        for each in self.inner:
            yield from each.all()


@dataclass
class Kernel:
    """A kernel and the functions that it calls. `stored`: the variable at each offset of a thread's stripe."""

    name: str
    functions: list[Statement]
    body: Statement
    stored: dict[int, str]

    def statements(self) -> list[Statement]:
        """Return what may be left out, larger parts first."""
        outer = (self.body, *self.functions)
        return [each for one in outer for each in one.all() if not isinstance(each, _Fixed)]

    def text(self, without: AbstractSet[Statement] = frozenset(), plain: AbstractSet[Statement] = frozenset()) -> str:
        """Return its text for both sides."""
        return "".join(one.text(without, plain, "") for one in (*self.functions, self.body))


@dataclass
class _Scope:
    """Variables that statements may read and write, and whether all threads come by together."""

    readable: list[tuple[str, str]]
    writable: list[tuple[str, str]]
    together: bool = False
    loops: int = 0
    in_kernel: bool = True


class _Function(NamedTuple):
    name: str
    result: str
    parameters: Sequence[str]
    changes_record: bool


class Generator:
    """Writes the kernels of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._count = 0
        self._functions: list[_Function] = []
        self._has_record = False
        self._arrays: list[tuple[str, str, int]] = []
        self._shared: list[tuple[str, str]] = []
        self._shared_counters = False

    def kernels(self, count: int) -> list[Kernel]:
        """Return `count` kernels, k0 and following."""
        return [self._kernel(f"k{number}") for number in range(count)]

    # ---- Kernels and functions

    def _kernel(self, name: str) -> Kernel:
        pick = self._random
        self._functions, self._arrays, self._shared = [], [], []
        functions = [self._function(f"{name}_f{number}") for number in range(pick.choice((0, 0, 1, 2)))]
        uniform_share = pick.choice((0.1, 0.3, 0.8))
        declared: list[tuple[str, str]] = []
        head = [
            f"u8 *const stripe = out + (group() * THREADS + thread()) * {STRIPE_BYTES}u;",
            "const u8 *const mine = in + (group() * THREADS + thread()) * 32u;",
        ]
        interesting = pick.sample(SCALARS, pick.randint(3, 7))
        types = [pick.choice(interesting) for _ in range(pick.randint(6, 14))]
        types += pick.sample(sorted(VECTORS), pick.randint(0, 3))
        for number, of in enumerate(types):
            own = f"mine + {pick.randrange(32 // BYTES[of]) * BYTES[of]}"
            place = f"in + {pick.randrange(256) * 16}" if pick.random() < uniform_share else own
            head.append(f"{of} v{number} = get<{of}>({place});")
            declared.append((of, f"v{number}"))
        self._has_record = pick.random() < 0.3
        if self._has_record:
            members = zip(RECORD_MEMBERS.values(), (0, 4, 8, 16, 12, 24), strict=True)
            head.append(f"Record r = {{{', '.join(f'get<{of}>(mine + {at})' for of, at in members)}}};")
            declared += [(of, f"r.{member}") for member, of in RECORD_MEMBERS.items()]
        head += self._declared_arrays(interesting)
        readable = [*declared, ("u32", "thread()"), ("u32", "lane()"), ("u32", "group()")]
        scope = _Scope(readable, declared, together=True)
        body = [self._statement(scope, 3) for _ in range(pick.randint(8, 22))]
        stored, tail = self._stores([one for one in declared if not one[1].startswith("r.")])
        whole = _Fixed(
            "\n  ".join([f"KERNEL({name}) {{", *head]), body, "\n".join(["", *(f"  {one}" for one in tail), "}"])
        )
        return Kernel(name, functions, whole, stored)

    def _declared_arrays(self, interesting: Sequence[str]) -> list[str]:
        pick, head = self._random, []
        for number in range(pick.choice((0, 0, 1, 2))):
            of, size = pick.choice((*interesting, "u32", "f32")), pick.choice((4, 8, 16))
            head.append(f"{of} a{number}[{size}];")
            at = f"((thread() * {pick.randrange(4)}u + i) % 64) * 16"
            head.append(f"for (u32 i = 0; i < {size}; i++) a{number}[i] = get<{of}>(in + {at});")
            self._arrays.append((of, f"a{number}", size))
        for number in range(pick.choice((0, 1, 1, 2))):
            of = pick.choice((*SCALARS, *VECTORS))
            head.append(f"SHARED({of}, s{number}, THREADS);")
            self._shared.append((of, f"s{number}"))
        self._shared_counters = pick.random() < 0.25
        if self._shared_counters:
            head.append("SHARED(u32, counts, 16);")
        return head

    def _stores(self, variables: Sequence[tuple[str, str]]) -> tuple[dict[int, str], list[str]]:
        stored, tail, at = {}, [], STRIPE_SLOTS * 16
        for of, variable in variables:
            tail.append(f"put(stripe + {at}, {variable});")
            stored[at] = f"{of} {variable}"
            at += 16
        if self._has_record:
            tail.append(f"put_record(stripe + {at}, r);")
            stored[at] = "Record r"
            at += 32
        for of, array, size in self._arrays:
            tail.append(f"for (u32 i = 0; i < {size}; i++) put(stripe + {at} + i * sizeof({of}), {array}[i]);")
            stored[at] = f"{of} {array}[{size}]"
            at += (BYTES[of] * size + 15) // 16 * 16
        assert at <= STRIPE_BYTES, at
        return stored, tail

    def _function(self, name: str) -> Statement:
        pick = self._random
        result = pick.choice(SCALARS)
        parameters = [pick.choice(SCALARS) for _ in range(pick.randint(1, 4))]
        record = pick.random() < 0.3
        scope = _Scope([], [], in_kernel=False)
        scope.readable = [(of, f"p{number}") for number, of in enumerate(parameters)]
        scope.writable = list(scope.readable)
        if record:
            scope.readable += [(of, f"r.{member}") for member, of in RECORD_MEMBERS.items()]
            scope.writable += [(of, f"r.{member}") for member, of in RECORD_MEMBERS.items()]
        listed = ", ".join(
            [f"{of} p{number}" for number, of in enumerate(parameters)] + (["Record &r"] if record else [])
        )
        head = f"{pick.choice(('NOINLINE', 'NOINLINE', 'INLINE'))} {result} {name}({listed}) {{"
        inner = [self._statement(scope, 2) for _ in range(pick.randint(1, 4))]
        tail = f"  return {self._expression(result, scope, 2)};\n}}"
        self._functions.append(_Function(name, result, parameters, record))
        return _Fixed(head, inner, tail)

    # ---- Statements

    def _statement(self, scope: _Scope, depth: int) -> Statement:
        pick = self._random
        choices: list[tuple[float, Callable[[_Scope], Statement]]] = [(10, self._assignment)]
        if depth > 0:
            choices += [(2.5, partial(self._branch, depth=depth)), (1, partial(self._switch, depth=depth))]
            if scope.loops < 2:
                choices.append((1.5, partial(self._loop, depth=depth)))
        if scope.in_kernel:
            choices += [(1.5, self._store), (0.6, self._counter)]
            if self._functions:
                choices.append((2, self._call))
            if self._arrays:
                choices.append((2, self._array_write))
        if scope.together:
            choices += [(2.5, self._crossing)]
            if self._shared:
                choices.append((1.5, self._through_lds))
            if self._shared_counters:
                choices.append((1, self._lds_counters))
        weights = [weight for weight, _ in choices]
        (make,) = pick.choices([make for _, make in choices], weights)
        return make(scope)

    def _block(self, scope: _Scope, depth: int, together: bool = False) -> list[Statement]:
        inner = _Scope(scope.readable, scope.writable, scope.together and together, scope.loops, scope.in_kernel)
        return [self._statement(inner, depth - 1) for _ in range(self._random.randint(1, 3))]

    def _assignment(self, scope: _Scope) -> Statement:
        of, variable = self._random.choice(scope.writable)
        plain = f"{variable} = {self._constant(of)};"
        return Statement(f"{variable} = {self._expression(of, scope, 3)};", plain=plain)

    def _call(self, scope: _Scope) -> Statement:
        function = self._random.choice(self._functions)
        if function.changes_record and not self._has_record:
            return self._assignment(scope)
        given = self._given(function, scope, 2) + (", r" if function.changes_record else "")
        name = self._new("t")
        of, variable = self._random.choice(scope.writable)
        value = self._expression(of, _Scope([(function.result, name)], [], in_kernel=False), 1)
        return Statement(f"{{ {function.result} {name} = {function.name}({given}); {variable} = {value}; }}")

    def _given(self, function: _Function, scope: _Scope, depth: int) -> str:
        return ", ".join(self._expression(each, scope, depth) for each in function.parameters)

    def _branch(self, scope: _Scope, depth: int) -> Statement:
        whole = Statement(f"if ({self._condition(scope)}) {{", self._block(scope, depth), "}")
        if self._random.random() < 0.5:
            return whole
        return Statement(
            "{", [_Fixed(whole.head, whole.inner, "}"), _Fixed("else {", self._block(scope, depth), "}")], "}"
        )

    def _switch(self, scope: _Scope, depth: int) -> Statement:
        pick = self._random
        cases: list[Statement] = []
        count = pick.randint(2, 5)
        for number in range(count):
            label = f"case {number * pick.choice((1, 1, 3))}: {{" if number < count - 1 else "default: {"
            if any(label == one.head for one in cases):
                continue
            end = "} break;" if pick.random() < 0.7 or number == count - 1 else "} [[fallthrough]];"
            cases.append(_Fixed(label, self._block(scope, depth), end))
        return Statement(f"switch ({self._expression('u32', scope, 1)} & 7) {{", cases, "}")

    def _loop(self, scope: _Scope, depth: int) -> Statement:
        pick = self._random
        name = self._new("step")
        fixed = pick.random() < 0.5
        inner = _Scope(
            [*scope.readable, ("u32", name)], scope.writable, scope.together and fixed, scope.loops + 1, scope.in_kernel
        )
        body = [self._statement(inner, depth - 1) for _ in range(pick.randint(1, 3))]
        bound = str(pick.randint(2, 6)) if fixed else f"({self._expression('u32', scope, 1)} & 7)"
        if not inner.together and pick.random() < 0.3:
            word = pick.choice(("break", "continue"))
            body.insert(pick.randrange(len(body) + 1), Statement(f"if ({self._condition(inner)}) {word};"))
        last = f"{name}_end"
        return Statement(f"for (u32 {name} = 0, {last} = {bound}; {name} < {last}; {name}++) {{", body, "}")

    def _store(self, scope: _Scope) -> Statement:
        pick = self._random
        of = pick.choice((*SCALARS, *VECTORS))
        at = (
            f"(({self._expression('u32', scope, 1)}) % {STRIPE_SLOTS}u) * 16"
            if pick.random() < 0.4
            else str(pick.randrange(STRIPE_SLOTS) * 16)
        )
        at += f" + {pick.randrange(16 // BYTES[of]) * BYTES[of]}"
        return Statement(f"put<{of}>(stripe + {at}, {self._expression(of, scope, 2)});")

    def _counter(self, scope: _Scope) -> Statement:
        operation, first, of = self._random.choice(COUNTER_OPERATIONS)
        at = f"(({of} *)(counters + {first}))[({self._expression('u32', scope, 1)}) % {4 if of == 'u64' else 8}u]"
        return Statement(f"atomic_{operation}(&{at}, {self._expression(of, scope, 2)});")

    def _array_write(self, scope: _Scope) -> Statement:
        of, array, size = self._random.choice(self._arrays)
        return Statement(
            f"{array}[({self._expression('u32', scope, 1)}) % {size}u] = {self._expression(of, scope, 2)};"
        )

    def _through_lds(self, scope: _Scope) -> Statement:
        pick = self._random
        of, shared = pick.choice(self._shared)
        into = [variable for each, variable in scope.writable if each == of]
        other = pick.choice(
            (
                f"thread() ^ {pick.randrange(THREADS)}u",
                f"(thread() + {pick.randrange(THREADS)}u) % THREADS",
                f"({self._expression('u32', scope, 1)}) % THREADS",
            )
        )
        read = f"{pick.choice(into)} = {shared}[{other}];" if into else self._into_any(of, f"{shared}[{other}]", scope)
        value = self._expression(of, scope, 2)
        return Statement(f"{{ {shared}[thread()] = {value}; barrier(); {read} barrier(); }}")

    def _into_any(self, of: str, value: str, scope: _Scope) -> str:
        pick = self._random
        if of in VECTORS:
            of, value = VECTORS[of].element, f"({value})[{pick.randrange(VECTORS[of].length)}]"
        name = self._new("t")
        to, variable = pick.choice(scope.writable)
        reading = _Scope([(of, name)], [], in_kernel=False)
        return f"{of} {name} = {value}; {variable} = {self._expression(to, reading, 2)};"

    def _lds_counters(self, scope: _Scope) -> Statement:
        operation = self._random.choice(("add", "xor", "or", "and", "min", "max"))
        value, at, read = (self._expression("u32", scope, 1) for _ in range(3))
        add = f"if ({self._condition(scope)}) atomic_{operation}(&counts[({at}) % 16u], {value});"
        into = self._into_any("u32", f"counts[({read}) % 16u]", scope)
        return Statement(
            f"{{ if (thread() < 16) counts[thread()] = thread() * 0x01010101u; barrier(); {add} barrier(); {into} barrier(); }}"
        )

    def _crossing(self, scope: _Scope) -> Statement:
        pick = self._random
        control = pick.choice(
            (pick.randrange(256), 0x110 + pick.randint(1, 15), 0x120 + pick.randint(1, 15), 0x140, 0x141)
        )
        form, of = pick.choice(
            (
                ("shuffle(@(u32), @(u32))", "u32"),
                (f"shuffle(@(u64), lane() ^ {pick.randrange(32)}u)", "u64"),
                (f"of_lane(@(u32), {pick.randrange(32)})", "u32"),
                ("of_first(@(u32))", "u32"),
                ("first_where(@(?), @(u32))", "u32"),
                ("ballot(@(?))", "u64"),
                ("ballot_where(@(?), @(?))", "u64"),
                (f"in_row<{control}>(@(u32))", "u32"),
                (f"exchanged<{pick.randrange(32)}>(@(u32))", "u32"),
            )
        )
        crossing = self._filled(form, of, scope, 3)
        return Statement(f"{{ {self._into_any(of, crossing, scope)} }}")

    # ---- Expressions

    def _condition(self, scope: _Scope, depth: int = 2) -> str:
        pick = self._random
        of = pick.choice(SCALARS)
        a, b = self._expression(of, scope, depth - 1), self._expression(of, scope, depth - 1)
        simple = f"{a} {pick.choice(('<', '>', '==', '!=', '<=', '>='))} {b}"
        if pick.random() < 0.3:
            return f"({simple}) {pick.choice(('&&', '||'))} (({self._expression('u32', scope, depth - 1)} >> {pick.randrange(32)}) & 1)"
        if pick.random() < 0.2:
            return f"(thread() >> {pick.randrange(7)}) & 1"
        return simple

    def _constant(self, of: str) -> str:
        pick = self._random
        if of in VECTORS:
            one = VECTORS[of]
            return f"{of}{{{', '.join(self._constant(one.element) for _ in range(one.length))}}}"
        if of in FLOATS:
            return f"({of}){pick.choice(_FLOAT_CONSTANTS)}"
        bits = BITS[of]
        value = pick.choice(
            (
                0,
                1,
                2,
                3,
                7,
                10,
                255,
                641,
                (1 << bits) - 1,
                1 << (bits - 1),
                (1 << (bits - 1)) - 1,
                pick.getrandbits(bits),
            )
        )
        return f"({of}){value & ((1 << bits) - 1)}ull"

    def _leaf(self, of: str, scope: _Scope) -> str:
        pick = self._random
        same = [name for each, name in scope.readable if each == of]
        same += [
            f"({name})[{pick.randrange(VECTORS[each].length)}]"
            for each, name in scope.readable
            if each in VECTORS and VECTORS[each].element == of
        ]
        if same and pick.random() < 0.85:
            return f"({of})({pick.choice(same)})"
        others = [(each, name) for each, name in scope.readable if each in SCALARS]
        if others and of in SCALARS and pick.random() < 0.75:
            return self._converted(of, *pick.choice(others))
        return self._constant(of)

    def _converted(self, of: str, source: str, value: str) -> str:
        if source in FLOATS and of in INTEGERS:
            return f"to_integer<{of}>({value})"
        if source in INTEGERS and of in ("f16", "bf16") and BITS[source] > 16:
            return f"({of})({'i16' if source in SIGNED else 'u16'})({value})"  # wider ones are rounded twice
        if (source, of) == ("f32", "f16"):
            return f"narrowed({value})"
        if {source, of} == {"f16", "bf16"}:
            return f"({of})(f32)({value})"
        return f"({of})({value})"

    def _expression(self, of: str, scope: _Scope, depth: int) -> str:
        """Text of type `of` that can stand wherever an operand can."""
        pick = self._random
        if depth <= 0 or pick.random() < 0.12:
            return self._leaf(of, scope)
        if of in VECTORS:
            return f"({self._filled(self._vector(of), of, scope, depth)})"
        if pick.random() < 0.12 and scope.in_kernel:
            return self._filled(self._from_memory(of), of, scope, depth)
        if pick.random() < 0.15:
            fitting = [one for one in self._functions if one.result == of and not one.changes_record]
            if fitting and scope.in_kernel:
                function = pick.choice(fitting)
                return f"{function.name}({self._given(function, scope, depth - 2)})"
        if of in FLOATS:
            return f"({of})({self._filled(self._float(of), of, scope, depth)})"
        return f"({of})({self._filled(self._integer(of), of, scope, depth)})"

    def _filled(self, form: str, of: str, scope: _Scope, depth: int) -> str:
        """Return a form with expressions in its places: @(type), @() of type `of`, @(?) a condition, @(=) a constant."""

        def part(found: re.Match[str]) -> str:
            if found[1] == "?":
                return self._condition(scope, depth - 1)
            return self._constant(of) if found[1] == "=" else self._expression(found[1] or of, scope, depth - 1)

        return _PLACE.sub(part, form)

    def _from_memory(self, of: str) -> str:
        pick = self._random
        at = "@(u32)"
        forms = [
            f"get<{of}>(in + (({at}) % 512u) * {BYTES[of]}u)",
            f"get_unaligned<{of}>(in + (({at}) % 4096u))"
            if of in INTEGERS
            else f"get<{of}>(mine + {pick.randrange(32 // BYTES[of]) * BYTES[of]})",
            f"get<{of}>(stripe + (({at}) % {STRIPE_SLOTS}u) * 16)",
        ]
        forms += [f"{array}[({at}) % {size}u]" for each, array, size in self._arrays if each == of] * 3
        return pick.choice(forms)

    def _vector(self, of: str) -> str:
        pick = self._random
        one = VECTORS[of]

        if of == "i16x2":
            return pick.choice(
                (
                    "same_bits<i16x2>(@(u16x2))",
                    f"@() >> (i16x2){pick.randrange(16)}",
                    "__builtin_elementwise_max(@(), @())",
                    "__builtin_elementwise_min(@(), @())",
                    "__builtin_elementwise_add_sat(@(), @())",
                )
            )
        if one.element in FLOATS:
            return pick.choice(
                (
                    *(f"@() {sign} @()" for sign in ("+", "-", "*")),
                    "-@()",
                    "fused(@(), @(), @())",
                    f"{of}{{{', '.join([f'@({one.element})'] * one.length)}}}",
                    f"same_bits<{of}>(@({'u32' if of == 'f16x2' else 'u64'}))",
                    "(@()).yx",
                )
            )
        bits = BITS[one.element]
        return pick.choice(
            (
                *(f"@() {sign} @()" for sign in ("+", "-", "*", "&", "|", "^")),
                f"@() << (@() & ({one.element}){bits - 1})",
                f"@() >> (@() & ({one.element}){bits - 1})",
                "__builtin_elementwise_min(@(), @())",
                "__builtin_elementwise_max(@(), @())",
                "__builtin_elementwise_sub_sat(@(), @())",
                f"{of}{{{', '.join([f'@({one.element})'] * one.length)}}}",
                f"(@()).{'yx' if one.length == 2 else pick.choice(('wzyx', 'yxwz', 'xxzz', 'zwxy'))}",
            )
        )

    def _float(self, of: str) -> str:
        pick = self._random

        forms = [
            *(f"@() {sign} @()" for sign in ("+", "-", "*", "+", "-", "*")),
            "quotient(@(), @())",
            "-@()",
            "@(?) ? @() : @()",
            "lesser(@(), @())",
            "greater(@(), @())",
        ]
        source = pick.choice(SCALARS)
        forms += [self._converted(of, source, f"@({source})")] * 3
        if of != "bf16":
            forms.append("__builtin_elementwise_abs(@())")
        if of in ("f16", "bf16"):
            forms.append(f"same_bits<{of}>(@(u16))")
        if of == "f16":
            forms += ["fused(@(), @(), @())", "mixed_half(@(), @(f32), @())"]
        if of == "f32":
            forms.append("mixed(@(f16), @(f16), @())")
        if of in ("f32", "f64"):
            forms += [
                f"same_bits<{of}>(@({'u32' if of == 'f32' else 'u64'}))",
                "root(@())",
                f"rounded(@(), {pick.randrange(4)})",
                "fused(@(), @(), @())",
                "scaled(@(), @(i32))",
                "minimum(@(), @())",
                "maximum(@(), @())",
                "minimum(maximum(@(), @(=)), @(=))",
                "signed_as(@(), @())",
            ]
        return pick.choice(forms)

    def _integer(self, of: str) -> str:
        pick = self._random
        bits = BITS[of]
        wide = "u64" if bits == 64 else "u32"

        source = pick.choice(SCALARS)
        forms = [
            *(f"({wide})@() {sign} ({wide})@()" for sign in ("+", "-", "*", "&", "|", "^", "+", "-", "*")),
            f"({wide})@() << (@(u32) & {bits - 1})",
            f"@() >> (@(u32) & {bits - 1})",
            f"({wide})@() << {pick.randrange(bits)}",
            f"@() >> {pick.randrange(bits)}",
            f"divide<{of}>(@(), @())",
            f"divide<{of}>(@(), @(=))",
            f"remainder_of<{of}>(@(), @())",
            f"remainder_of<{of}>(@(), @(=))",
            "~@()",
            f"({wide})0 - ({wide})@()",
            "@(?) ? @() : @()",
            f"lesser<{of}>(@(), @())",
            f"greater<{of}>(@(), @())",
            f"lesser<{of}>(greater<{of}>(@(), @(=)), @())",
            "@(?)",
            f"__builtin_elementwise_{pick.choice(('add', 'sub'))}_sat(@(), @())",
            f"__builtin_popcountg(({'u' + of[1:]})@())",
        ]
        forms += [self._converted(of, source, f"@({source})")] * 4
        twins = [each for each in (*FLOATS, *VECTORS) if BYTES[each] == BYTES[of] and each not in INTEGERS]
        if twins:
            twin = pick.choice(twins)
            forms.append(f"bits_of<{of}>(@({twin}))")
        narrow = {64: ("u32", "i32"), 32: ("u16", "i16"), 16: ("u8", "i8")}.get(bits)
        if narrow is not None:
            low, high = (f"@({pick.choice(narrow)})" for _ in range(2))
            forms.append(f"({wide}){low} * ({wide}){high}")
            forms.append(f"({wide})(u{bits // 2}){low} | ({wide}){high} << {bits // 2}")
            small = pick.choice(narrow)
            forms.append(f"widened<{wide}>(@({small})) / (({wide})@({'u' + small[1:]}) | 1)")
            forms.append(f"widened<{wide}>(@({small})) % (({wide})@({'u' + small[1:]}) | 1)")
        if bits in (32, 64):
            forms.append("high_product(@(), @())")
            rotated = f"__builtin_rotateleft{bits}(@(), @(u32))"
            forms += [rotated, f"__builtin_bitreverse{bits}(@())"]
        if bits > 8:
            forms.append(f"bytes_swapped((u{bits})@())")
        if of in ("u32", "u64"):
            forms += ["leading_zeros(@())", "trailing_zeros(@())"]
        if of == "u32":
            forms += [
                "absolute(@(i32))",
                f"field(@(), @(), {pick.randint(1, 31)})",
                "funnel(@(), @(), @())",
                "picked(@(), @(), @())",
                "carried(@(), @())",
                "(@() & 0xffffff) * (@() & 0xffffff) + @()",
                "@() * @() + @()",
                f"(@() << {pick.randrange(5)}) + @()",
                "(@() + @()) + @()",
            ]
        if of == "i32":
            forms.append(f"signed_field(@(u32), {pick.randrange(32)}, {pick.randrange(32)})")
        if of == "u64":
            forms.append("(u64)@(u32) * @(u32) + @()")
        return pick.choice(forms)

    def _new(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"


class _Fixed(Statement):
    """A statement that stays: only what is in it may be left out."""


COUNTER_OPERATIONS = (
    ("add", 0, "u32"),
    ("xor", 8, "u32"),
    ("or", 16, "u32"),
    ("and", 24, "u32"),
    ("min", 32, "u32"),
    ("max", 40, "i32"),
    ("add", 48, "u64"),
    ("max", 56, "u64"),
)
"""Each on counters of its own, so that the order does not matter: the operation, its first counter, their type."""


def text_of(kernels: list[Kernel], side: str) -> str:
    """Return a translation unit of the kernels for `side`, "device" or "host"."""
    return f'#define THREADS {THREADS}u\n#include "on_{side}.h"\n\n' + "\n".join(one.text() for one in kernels)


def input_bytes(seed: int) -> bytes:
    """Return what all kernels of a seed read: random bits, small numbers and the ends of each type."""
    pick = random.Random(seed)  # noqa: S311
    words = []
    for _ in range(INPUT_BYTES // 8):
        choice = pick.random()
        if choice < 0.4:
            words.append(pick.getrandbits(64))
        elif choice < 0.55:
            words.append(pick.randrange(200) | pick.randrange(200) << 32)
        elif choice < 0.7:
            words.append(sum((pick.choice((0, 1, 0x7FFF, 0x8000, 0xFFFF, 0x3C00, 0xBC00)) << 16 * n) for n in range(4)))
        elif choice < 0.85:
            words.append(
                sum((0x3F000000 + pick.getrandbits(25) + (pick.getrandbits(1) << 31)) << 32 * n for n in range(2))
            )
        else:
            words.append(0x3FE0000000000000 + pick.getrandbits(54) + (pick.getrandbits(1) << 63))
    return b"".join(word.to_bytes(8, "little") for word in words)
