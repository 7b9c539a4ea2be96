"""Names of kernels: read as llvm-cxxfilt reads them, and short enough for a person."""

from __future__ import annotations

import pytest

from ckwatch.codeobject.demangle import NamePool, demangle, full_name
from ckwatch.codeobject.kernel_names import is_helper, own_kernels, readable_names, scoped_name
from ckwatch.codeobject.metadata import read_metadata
from helpers.code_objects import DATA, OBJECTS, content
from helpers.each_row import each_row

DEMANGLED = dict(line.split("\t") for line in (DATA / "names.txt").read_text().splitlines())
MANGLED = {symbol: name for symbol, name in DEMANGLED.items() if symbol.startswith("_Z")}
READABLE = readable_names(DEMANGLED)


def symbol_of(part: str) -> str:
    (found,) = [symbol for symbol, name in DEMANGLED.items() if part in name]
    return found


@each_row("symbol", MANGLED)
def test_the_tree_is_what_the_demangler_reads(symbol: str) -> None:
    # it does not keep what a template returns, nor that a member function is const
    assert MANGLED[symbol].removeprefix("void ").removesuffix(" const") == full_name(demangle(symbol, NamePool()))


@each_row(
    ("symbol", "name"),
    [
        ("_Z1fv", "f()"),
        ("_Z1fPKcRiOd", "f(char const*, int&, double&&)"),
        ("_ZN1a1bEN1c1dES0_S_", "a::b(c::d, c, a)"),
        ("_Z1fIiEvT_S0_", "f<int>(int, int)"),
        ("_Z1fIJifEEvDpT_", "f<int, float>(int, float)"),
        ("_Z1fIJifEEvDpRKT_", "f<int, float>(int const&, float const&)"),
        ("_Z1fILin3EEvv", "f<-3>()"),
        ("_Z1fIXeqLi1ELi2EEEvv", "f<(1 == 2)>()"),
        ("_Z1fILDn0EEvv", "f<nullptr>()"),
        ("_Z1fIDF16_DF16bEvv", "f<_Float16, std::bfloat16_t>()"),
        ("_Z1fDv4_DF16_", "f(_Float16 vector[4])"),
        ("_Z1fPFivE", "f(int (*)())"),
        ("_Z1fM1aFivE", "f(int (a::*)())"),
        ("_Z1fA3_i", "f(int [3])"),
        ("_Z1fSt6vectorIiSaIiEE", "f(std::vector<int, std::allocator<int>>)"),
        ("_ZNK1aclEi", "a::operator()(int)"),
        ("_ZN1a1bB5cxx11Ev", "a::b[abi:cxx11]()"),
        ("_Z1fPU3AS1f", "f(float AS1*)"),
        ("_ZN1aC2Ei", "a::a(int)"),
        ("_Z1fv.kd", "f()"),
    ],
)
def test_the_grammar(symbol: str, name: str) -> None:
    assert full_name(demangle(symbol, NamePool())) == name


@each_row(
    "symbol",
    [
        "",
        "plain",
        "_Z",
        "_ZN",
        "_ZN1aE_",
        "_Z9short",
        "_ZS_v",
        "_Z1fS5_",
        "_Z1fIi",
        "_Z1f" + "P" * 100000,
        "_ZNE",
        "_Z1f?",
        "_Z1fPFE",
    ],
)
def test_what_cannot_be_read_keeps_its_symbol(symbol: str) -> None:
    with pytest.raises(ValueError, match=r"_Z|mangled|substring"):
        demangle(symbol, NamePool())
    assert readable_names([symbol]) == {symbol: symbol}
    assert not is_helper(symbol)


def test_every_way_to_cut_a_name_short_is_a_value_error() -> None:
    for symbol in MANGLED:
        for end in range(len(symbol)):
            try:
                demangle(symbol[:end], NamePool())
            except ValueError:
                continue


def doubled(inner: str, times: int = 40) -> str:
    """The symbol of a function of pairs of pairs of pairs: 2^times names in full."""
    opened = "S0_I" * (times - 1)
    closed = "".join(f"S{_base36(1 + step)}_E" for step in range(times))
    return f"_Z1fI1pI{opened}1{inner}{closed}Evv"


def test_a_name_that_doubles_with_every_part_is_no_trouble() -> None:
    assert full_name(demangle(doubled("a", 2), NamePool())) == "f<p<p<a, a>, p<a, a>>>()"
    one, other = doubled("a"), doubled("b")
    assert demangle(one, NamePool()).size > 2**40
    assert readable_names([one]) == {one: "f<p<…>>"}
    assert readable_names([one, other]) == {one: one, other: other}


def _base36(number: int) -> str:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return digits[number] if number < 36 else _base36(number // 36) + digits[number % 36]


# -- for a person

WIDE = "GridwiseGemm_xdl_cshuffle_v3<…, GemmSpecialization::MNKPadding, …, 256, …>"
NARROW = "GridwiseGemm_xdl_cshuffle_v3<…, GemmSpecialization::Default, …, 128, …>"


@each_row(
    ("part", "name"),
    [
        (
            "kernel_gemm_xdl_cshuffle_v3<ck::GridwiseGemm_xdl_cshuffle_v3<ck::tensor_layout::gemm::RowMajor, ck::tensor_layout::gemm::ColumnMajor, ck::tensor_layout::gemm::RowMajor, _Float16, _Float16, float, ck::tensor_operation::element_wise::PassThrough, ck::tensor_operation::element_wise::PassThrough, (ck::tensor_operation::device::GemmSpecialization)0",
            f"kernel_gemm_xdl_cshuffle_v3<{NARROW}, HasMainKBlockLoop=true, InMemoryDataOperationEnum::Set, MinimumOccupancy=2, TailNumber::Full>",
        ),
        (
            "false, (ck::InMemoryDataOperationEnum)1, 2, (ck::TailNumber)0",
            f"kernel_gemm_xdl_cshuffle_v3<{WIDE}, HasMainKBlockLoop=false, InMemoryDataOperationEnum::AtomicAdd, MinimumOccupancy=2, TailNumber::Odd>",
        ),
        (
            "kentry<256, 2, ck_tile::GemmKernel<ck_tile::sequence<256, 256, 64>",
            "kentry<MaxThreadPerBlock=256, MinBlockPerCu=2, GemmKernel<sequence<256, 256, 64>, GemmPipelineAgBgCrCompV3<sequence<256, 256, 64>, …>, …>>",
        ),
        ("ck::kernel_elementwise<_Float16", "kernel_elementwise<_Float16, Tuple<Sequence<1, 2>, PassThrough>>"),
        ("of_value<(char)97>", "of_value<97>"),
        # equal but for the scope, the parameters or the type of a number
        ("of_value<3u>", "mine::of_value<3u>()"),
        ("mine::same(int)", "mine::same(int)"),
        ("mine::same(float)", "mine::same(float)"),
        ("theirs::same(int)", "theirs::same(int)"),
        ("void with<launches()::'lambda'(int)>", "with<launches()::'lambda'(int)>"),
        ("in_nobodys", "in_nobodys<int>"),
        ("plain", "plain"),
    ],
)  # fmt: skip
def test_readable_names(part: str, name: str) -> None:
    assert READABLE[symbol_of(part)] == name


def test_one_variant_alone_needs_fewer_words() -> None:
    alone = symbol_of("false, (ck::InMemoryDataOperationEnum)1")
    assert readable_names([alone])[alone] == (
        "kernel_gemm_xdl_cshuffle_v3<GridwiseGemm_xdl_cshuffle_v3<…>, HasMainKBlockLoop=false, "
        "InMemoryDataOperationEnum::AtomicAdd, MinimumOccupancy=2, TailNumber::Odd>"
    )


def test_no_two_names_are_equal() -> None:
    assert len(set(READABLE.values())) == len(DEMANGLED)


@each_row("name", OBJECTS)
def test_real_kernels_have_names_without_mangling(name: str) -> None:
    kernels = read_metadata(content(name)).kernels
    assert not [kernel.name for kernel in kernels if "_Z" in kernel.name]
    assert len({kernel.name for kernel in kernels}) == len(kernels)


# -- helpers


def test_helpers_are_those_of_ck_only() -> None:
    assert {READABLE[symbol] for symbol in DEMANGLED if is_helper(symbol)} == {
        "flush_icache",
        "flush_cache",
        "set_buffer_value<float>",
    }


def test_helpers_of_the_runtime() -> None:
    assert is_helper("__amd_rocclr_fillBufferAligned")


def test_the_helper_beside_a_real_gemm() -> None:
    kernels = read_metadata(content("gemm_f16_v3_128x128x64.gfx942")).kernels
    assert [kernel.name for kernel in kernels if is_helper(kernel.symbol)] == ["flush_icache"]
    assert len(kernels) == 2


def test_names_with_their_scopes() -> None:
    assert scoped_name("_ZN5outer5inner6beyondILi8192EEEvPi") == "outer::inner::beyond<8192>"
    assert scoped_name("_ZN12_GLOBAL__N_11kEPi") == "(anonymous namespace)::k"
    assert scoped_name("_Z5checkPii") == "check"
    assert scoped_name("gemm_f16") == "gemm_f16"
    long = next(symbol for symbol, name in DEMANGLED.items() if "ck::kernel_gemm_xdl_cshuffle_v3<" in name)
    assert scoped_name(long) == f"ck::{readable_names([long])[long]}"


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("scale", ("_Float16", "8"), ["_ZN2ns5scaleIDF16_Li8EEEvPT_"]),
        ("scale", ("n / 8", "256", "float", "8"), ["_ZN2ns5scaleIfLi8EEEvPT_"]),
        ("scale", ("other",), ["_ZN2ns5scaleIfLi8EEEvPT_", "_ZN2ns5scaleIDF16_Li8EEEvPT_"]),
        ("add", ("4",), ["_Z3addPf"]),
        ("", (), []),
    ],
)
def test_own_kernels_have_the_name_and_the_arguments(
    name: str, arguments: tuple[str, ...], expected: list[str]
) -> None:
    symbols = ["_ZN2ns5scaleIfLi8EEEvPT_", "_ZN2ns5scaleIDF16_Li8EEEvPT_", "_Z3addPf", "unreadable"]
    assert own_kernels(symbols, name, arguments) == expected


def test_a_boolean_alone_makes_no_kernel_the_units_own() -> None:
    """Composable Kernel's kernels for a main loop and without one differ in a boolean, and instances have others."""
    symbols = ["_Z6kernelIfLb1EEvPT_", "_Z6kernelIfLb0EEvPT_"]
    assert own_kernels(symbols, "kernel", ("256", "false")) == symbols
    assert own_kernels(symbols, "kernel", ("float", "false")) == symbols[1:]


def test_names_of_tensile_keep_the_tile_and_what_differs() -> None:
    same = "_".join(f"P{letter}{number}" for letter in "ABCDEFGHIJ" for number in range(4))
    symbols = [
        f"Cijk_Ailk_S_MT{tile}x32_MI16x16x1_{same}_WG{group}_4_1_ZZ1" for tile, group in ((64, 8), (128, 8), (64, 16))
    ]
    assert list(readable_names(symbols).values()) == [
        "Cijk_Ailk_S_MT64x32_MI16x16x1_…_WG8_4_1_…",
        "Cijk_Ailk_S_MT128x32_MI16x16x1_…_WG8_4_1_…",
        "Cijk_Ailk_S_MT64x32_MI16x16x1_…_WG16_4_1_…",
    ]
    assert readable_names(symbols[:1]) == {symbols[0]: symbols[0]}


def test_names_are_no_commands_for_a_terminal() -> None:
    assert readable_names(["a\x1b[31mb\n"]) == {"a\x1b[31mb\n": "a\ufffd[31mb\ufffd"}
