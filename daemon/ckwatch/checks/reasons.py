"""Says in a compiler's message what its notes or a table know: why the only candidate of a call is not one, and which
header of the standard library is not included."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ckwatch.checks.clang_output import ClangMessage

_NO_MATCH = re.compile(r"no matching (?:function|member function|constructor|literal operator)\b")
_CANDIDATE = re.compile(
    r"candidate (?:[\w ]+?)(?: \([^)]*\))?(?: not viable| ignored)?(?: \[with .*?\])?: (?P<reason>.+)$"
)
_BECAUSE = re.compile(r"(?:and )?because (?P<reason>.+)$")
_IMPLICIT = re.compile(r"candidate constructor \(the implicit")
_NOT_IN_STD = re.compile(
    r"no (?:template|type|member) named '(?P<clang>\w+)' in namespace 'std'|"
    r"namespace \"std\" has no member \"(?P<edg>\w+)\"|"
    r"implicit instantiation of undefined template 'std::(?P<class>\w+)<|"
    r"variable has incomplete type 'std::(?P<incomplete>\w+)|"
    r"incomplete type \"std::(?P<unfinished>\w+)"
)
_UNDECLARED = re.compile(
    r"(?:use of undeclared identifier|unknown type name|call to undeclared (?:library )?function) '(?P<clang>\w+)'|"
    r"identifier \"(?P<edg>\w+)\" is undefined"
)
_ADVICE = re.compile(r"; did you mean .*")

_STD: Mapping[str, str] = {
    "algorithm": "sort stable_sort partial_sort nth_element min_element max_element minmax_element clamp fill fill_n "
    "copy copy_n copy_if transform for_each find find_if count count_if all_of any_of none_of generate reverse rotate "
    "unique remove_if lower_bound upper_bound binary_search max min minmax equal shuffle",
    "any": "any",
    "array": "array to_array",
    "atomic": "atomic atomic_ref memory_order_relaxed",
    "bit": "bit_cast popcount countl_zero countr_zero bit_ceil bit_width has_single_bit",
    "bitset": "bitset",
    "charconv": "to_chars from_chars",
    "chrono": "chrono",
    "cmath": "sqrt exp log pow fabs fmax fmin floor ceil round isnan isinf tanh sin cos fma lround",
    "complex": "complex",
    "concepts": "integral floating_point same_as convertible_to",
    "condition_variable": "condition_variable",
    "cstddef": "size_t ptrdiff_t byte nullptr_t",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t",
    "cstdio": "printf fprintf snprintf puts fopen fclose fputs",
    "cstdlib": "getenv abort exit malloc free strtol atoi",
    "cstring": "memcpy memset memcmp strlen strcmp strncpy",
    "deque": "deque",
    "filesystem": "filesystem",
    "format": "format",
    "fstream": "ifstream ofstream fstream",
    "functional": "function bind plus multiplies less greater hash reference_wrapper invoke",
    "future": "future async promise",
    "initializer_list": "initializer_list",
    "iomanip": "setw setprecision setfill",
    "iostream": "cout cerr cin clog endl",
    "iterator": "back_inserter ostream_iterator reverse_iterator",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared addressof",
    "mutex": "mutex lock_guard unique_lock scoped_lock call_once once_flag",
    "numeric": "accumulate iota reduce inner_product gcd lcm partial_sum exclusive_scan inclusive_scan midpoint",
    "optional": "optional nullopt make_optional",
    "queue": "queue priority_queue",
    "random": "mt19937 mt19937_64 random_device uniform_int_distribution uniform_real_distribution normal_distribution",
    "ranges": "views ranges",
    "set": "set multiset",
    "span": "span",
    "sstream": "stringstream ostringstream istringstream",
    "stack": "stack",
    "stdexcept": "runtime_error invalid_argument logic_error out_of_range",
    "string": "string to_string stoi stof getline basic_string",
    "string_view": "string_view basic_string_view",
    "thread": "thread this_thread jthread",
    "tuple": "tuple make_tuple tie get apply forward_as_tuple",
    "type_traits": "is_same is_same_v enable_if enable_if_t conditional conditional_t decay_t remove_cvref_t "
    "is_integral_v is_floating_point_v integral_constant true_type false_type void_t is_constant_evaluated",
    "typeinfo": "type_info",
    "unordered_map": "unordered_map",
    "unordered_set": "unordered_set",
    "utility": "pair make_pair move forward swap exchange index_sequence make_index_sequence integer_sequence declval",
    "variant": "variant visit holds_alternative monostate",
    "vector": "vector",
}
_GLOBAL: Mapping[str, str] = {
    "cassert": "assert",
    "cfloat": "FLT_MAX FLT_MIN FLT_EPSILON DBL_MAX DBL_EPSILON",
    "climits": "INT_MAX INT_MIN UINT_MAX LONG_MAX CHAR_BIT",
    "cmath": "M_PI INFINITY NAN sqrtf expf powf",
    "cstdint": "INT32_MAX INT64_MAX UINT32_MAX UINT64_MAX SIZE_MAX",
    "cstdio": "stderr stdout FILE",
}
_NAMES = ("cstdint", "cstdio", "cstdlib", "cstring", "cstddef")
_HEADER_IN_STD = {name: header for header, names in _STD.items() for name in names.split()}
_HEADER_OF_GLOBAL = {
    name: header
    for table in ({header: _STD[header] for header in _NAMES}, _GLOBAL)
    for header, names in table.items()
    for name in names.split()
}


def missing_header(text: str, source: str) -> str | None:
    """The header of the standard library that declares what a message misses, without its brackets; None when the
    `source` includes it, or it is none of the library's names."""
    for pattern, headers in ((_NOT_IN_STD, _HEADER_IN_STD), (_UNDECLARED, _HEADER_OF_GLOBAL)):
        match = pattern.match(text)
        if match is not None:
            header = headers.get(next(name for name in match.groups() if name))
            included = header is not None and re.search(rf"^\s*#\s*include\s*<{header}>", source, re.MULTILINE)
            return None if included else header
    return None


_NOT_FINITE = re.compile(r"use of (?P<what>infinity|NaN)\b.* is undefined behavior")
_FAST_MATH = re.compile(r"-ffast-math|-ffinite-math-only|-Ofast|-fno-honor-\w+|-ffp-model=(?:fast|aggressive)")


def under_fast_math(message: ClangMessage, flags: Iterable[str]) -> str | None:
    """A sentence on infinity or NaN under ckwatch's default for HIP; None for other messages, and where `flags` of the
    user ask for fast math."""
    used = _NOT_FINITE.match(message.text) if message.option == "nan-infinity-disabled" else None
    if used is None or any(_FAST_MATH.fullmatch(flag) for flag in flags):
        return None
    honor = "-fhonor-infinities" if used["what"] == "infinity" else "-fhonor-nans"
    return (
        f"use of {used['what']} is undefined behavior under -ffast-math, which is ckwatch's default, as Inductor's: "
        f'`flags = ["{honor}"]` in the kernel file or under [compile] defines it, '
        '`flags = ["-fno-fast-math"]` ends all of it'
    )


def explained(message: ClangMessage, source: str) -> str:
    """The message's text with the reason that its notes have, or with the header that is missing."""
    header = missing_header(message.text, source)
    if header is not None:
        return f"{_ADVICE.sub('', message.text)}: #include <{header}> is missing"
    if _NO_MATCH.match(message.text) is None:
        return message.text
    reasons: list[str] = []
    for note in message.notes:
        candidate = None if _IMPLICIT.match(note.text) else _CANDIDATE.match(note.text)
        because = _BECAUSE.match(note.text)
        if candidate is not None:
            reasons.append(candidate["reason"])
        elif because is not None and reasons:
            reasons[-1] += f", as {because['reason']}"
    only = dict.fromkeys(reasons)
    return f"{message.text}: {next(iter(only))}" if len(only) == 1 else message.text
