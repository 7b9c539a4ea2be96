"""Threads per workgroup, as a text's launches say them."""

from __future__ import annotations

from ckwatch.checks.device_code.launch_sizes import size_of_launches
from helpers.each_row import each_row

ROWS: dict[str, int | None] = {
    "k<<<n, 256>>>(x);": 256,
    "k<<<dim3(n / 128, m), dim3(16, 16), 0, stream>>>(x);": 256,
    "k<float, 4><<<n, dim3{64, 2, 2}>>>(x);": 256,
    "constexpr int kThreads = 4 * 64; k<<<n, kThreads>>>(x);": 256,
    "#define BLOCK 128\nk<<<n, BLOCK>>>(x);": 128,
    "enum { A = 1, B = 64 }; k<<<n, B>>>(x);": 64,
    "const dim3 block(32, 4); k<<<n, block>>>(x);": 128,
    "dim3 block = dim3(32, 4); k<<<n, block>>>(x);": 128,
    "int threads = 512; k<<<n, threads>>>(x);": 512,
    "unsigned t = (unsigned)(64 * 2); k<<<n, static_cast<int>(t)>>>(x);": 128,
    "hipLaunchKernelGGL(k, dim3(n), dim3(192), 0, s, x);": 192,
    "hipLaunchKernelGGL(HIP_KERNEL_NAME(k<float, 2>), n, dim3(64), 0, s, x);": 64,
    "auto run = &k<4>; run<<<n, 96>>>(x);": 96,
    "k<<<n, 64>>>(x); k<<<n, 320>>>(x);": 320,
    "k<<<n, threads>>>(x);": None,
    "void f(int threads) { k<<<n, threads>>>(x); }": None,
    "int threads = 512; if (n < 9) threads = 64; k<<<n, threads>>>(x);": None,
    "int t = 64; take(&t); k<<<n, t>>>(x);": None,
    "dim3 block(32, 4); block.y = n; k<<<n, block>>>(x);": None,
    "int f() { int t = 64; } int g() { int t = 128; k<<<n, t>>>(x); }": None,
    "k<<<n, 64>>>(x); k<<<n, rows>>>(x);": None,
    "k<<<n, Traits::kThreads>>>(x);": None,
    "// k<<<n, 64>>>(x);": None,
    "other<<<n, 64>>>(x);": None,
    "k(x);": None,
    "k<<<n": None,
}


@each_row(("text", "threads"), ROWS.items())
def test_the_threads_of_a_launch_are_known_where_they_are_constants(text: str, threads: int | None) -> None:
    found = size_of_launches(text, "k")

    assert (None if found is None else found.threads) == threads


def test_a_size_names_the_text_that_it_follows_from() -> None:
    text = "constexpr int B = 4 * 64; k<<<n, B>>>(x);"
    found = size_of_launches(text, "k")

    assert found is not None
    assert found.block is not None
    assert [text[start:end] for start, end in found.written] == ["B", "4 * 64"]
    assert text[found.block[0] : found.block[1]] == "B"
