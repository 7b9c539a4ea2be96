"""Deliberate mistakes, each with the place where it is made and the place where it must be reported."""

from __future__ import annotations

from dataclasses import dataclass

from workspaces import gemm_kernel

KERNEL = gemm_kernel("k.hip.j2", {"one": {"Tile": 16}})
TEMPLATE = """\
{% from "macros.j2" import fill, guard with context %}
{{ header("hip") }}
{{ globals("hip") }}
{% include "device.j2" %}
extern "C" PT_EXPORT {{ def_kernel(inputs=[X, W], outputs=[Y]) }} {
    constexpr int tile = {{ Tile }};
    {{ guard(Y) }}
{%- for step in range(2) %}
    {{ fill("Y", step) }}
{%- endfor %}
    return 0;
}
"""
MACROS = """\
{% macro fill(name, value) %}
fill_kernel<<<1, tile, 0, stream>>>({{ name }}, {{ value }});
{%- endmacro %}
{% macro guard(tensor) %}
{{ check_not_null(tensor) }}
{%- endmacro %}
"""
DEVICE = """\
__global__ void fill_kernel(uint16_t* out, int value) { out[threadIdx.x] = value; }
template <int Tile> struct Panel {
    static_assert(Tile % 8 == 0, "a panel has whole vectors");
    static constexpr int vectors = Tile / 8;
};
constexpr int vectors = Panel<{{ Tile }}>::vectors;
"""
HIP_FILES = {
    "kernels/plain.kernel.toml": KERNEL,
    "templates/k.hip.j2": TEMPLATE,
    "templates/macros.j2": MACROS,
    "templates/device.j2": DEVICE,
}
GEMM = "gemm_f16.kernel.toml"


@dataclass(frozen=True)
class Mistake:
    """`old` becomes `new` in `file`; the first error must lie at `place` (file:line:column) and say `message`.

    `compiles` tells that a compiler is needed to see it; `rules` off leaves a bad instance to the compiler.
    """

    what: str
    file: str
    old: str
    new: str
    place: str
    message: str
    compiles: bool = False
    rules: bool = True


PLAIN = [
    Mistake("kernel file: unknown dtype", "kernels/plain.kernel.toml", 'a = { dtype = "f16"', 'a = { dtype = "f17"',
            "kernels/plain.kernel.toml:5:15", "f17"),
    Mistake("kernel file: TOML syntax", "kernels/plain.kernel.toml", 'name = "one"', 'name = "one',
            "kernels/plain.kernel.toml:10:", ""),
    Mistake("kernel file: missing template", "kernels/plain.kernel.toml", '"k.hip.j2"', '"kk.hip.j2"',
            "kernels/plain.kernel.toml:1:12", "kk.hip.j2"),
    Mistake("kernel file: unknown key", "kernels/plain.kernel.toml", 'kind = "gemm"', 'kind = "gemm"\nactivaton = "relu"',
            "kernels/plain.kernel.toml:5:1", "activation"),
    Mistake("kernel file: duplicate instance", "kernels/plain.kernel.toml", "Tile = 16\n",
            'Tile = 16\n[[instance]]\nname = "one"\nTile = 32\n', "kernels/plain.kernel.toml:13:8", "one"),
    Mistake("kernel file: sweep condition", "kernels/plain.kernel.toml", "Tile = 16\n",
            'Tile = 16\n[[sweep]]\nname = "s"\nwhere = ["Tile > Tyle"]\n[sweep.parameters]\nTile = [8, 32]\n',
            "kernels/plain.kernel.toml:14:18", "Tyle"),
    Mistake("kernel file: a parameter that no template reads", "kernels/plain.kernel.toml", "Tile = 16\n", "Tile = 16\nWave = 64\n",
            "kernels/plain.kernel.toml:12:", "Wave"),
    Mistake("Jinja: undefined name in an included file", "templates/device.j2", "{{ Tile }}", "{{ Tyle }}",
            "templates/device.j2:6:34", "did you mean 'Tile'"),
    Mistake("Jinja: unknown filter in a macro", "templates/macros.j2", "{{ value }}", "{{ value | uper }}",
            "templates/macros.j2:2:60", "upper"),
    Mistake("Jinja: unclosed loop", "templates/k.hip.j2", "{%- endfor %}\n", "", "templates/k.hip.j2:", "endfor"),
    Mistake("Jinja: wrong use of a hook", "templates/k.hip.j2", "outputs=[Y]", "outputs=[Y], names_str='X'",
            "templates/k.hip.j2:5:22", "names_str"),
]  # fmt: skip
COMPILED = [
    Mistake("C++: undeclared name, in a macro called in a loop", "templates/macros.j2", "fill_kernel<<<", "fil_kernel<<<",
            "templates/macros.j2:2:1", "fil_kernel", compiles=True),
    Mistake("C++: missing semicolon", "templates/k.hip.j2", "{{ Tile }};", "{{ Tile }}", "templates/k.hip.j2:6:26", "expected ';'",
            compiles=True),
    Mistake("C++: after a tab and non-ASCII text", "templates/k.hip.j2", "return 0;", "\t/* größe 😀 */ return nul;",
            "templates/k.hip.j2:11:27", "nul", compiles=True),
    Mistake("header: not there", "templates/device.j2", "__global__", '#include "ck/no_such_header.hpp"\n__global__',
            "templates/device.j2:1:", "ck/no_such_header.hpp", compiles=True),
    Mistake("header: an assertion inside CK, reached from the template", "templates/device.j2", "__global__",
            '#include "ck/ck.hpp"\n#include "ck/utility/sequence.hpp"\nusing Wrong = decltype(ck::Sequence<1, 2>::At(ck::Number<5>{}));\n__global__',
            "templates/device.j2:3:", "", compiles=True),
    Mistake("instance: a template's own assertion", "kernels/plain.kernel.toml", "Tile = 16", "Tile = 20",
            "kernels/plain.kernel.toml:11:8", "20 % 8", compiles=True),
]  # fmt: skip
INSTANCE = [
    Mistake("CK instance: tile not divisible", GEMM, "MXdlPerWave = 2", "MXdlPerWave = 3", f"{GEMM}:", "128 % (32 * 3) = 32"),
    Mistake("CK instance: pipeline without Interwave", GEMM, 'BlkGemmPipelineVer = "v3"',
            'BlkGemmPipelineVer = "v3"\nBlkGemmPipeSched = "Interwave"', f"{GEMM}:", "Interwave"),
    Mistake("CK instance: vector width", GEMM, "KPerBlock = 64", "KPerBlock = 64\nABlockTransferSrcScalarPerVector = 3",
            f"{GEMM}:", "ABlockTransferSrcScalarPerVector"),
    Mistake("CK instance: thread cluster larger than the block", GEMM, "KPerBlock = 64",
            "KPerBlock = 64\nABlockTransferThreadClusterLengths_AK0_M_AK1 = [8, 64, 1]", f"{GEMM}:", "512"),
    Mistake("CK instance: LDS", GEMM, "MPerBlock = 128\nNPerBlock = 128\nKPerBlock = 64\nMXdlPerWave = 2\nNXdlPerWave = 2",
            "MPerBlock = 256\nNPerBlock = 256\nKPerBlock = 128\nMXdlPerWave = 4\nNXdlPerWave = 4\n"
            "ABlockTransferThreadClusterLengths_AK0_M_AK1 = [16, 16, 1]\nBBlockTransferThreadClusterLengths_BK0_N_BK1 = [16, 16, 1]",
            f"{GEMM}:", "LDS"),
]  # fmt: skip
INSTANCE_COMPILED = [
    Mistake("the same tile, found by hipcc", GEMM, "MXdlPerWave = 2", "MXdlPerWave = 3", f"{GEMM}:", "128 % (32 * 3) = 32",
            compiles=True, rules=False),
]  # fmt: skip
