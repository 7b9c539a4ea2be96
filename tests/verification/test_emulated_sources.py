"""Source files that `ckwatch emulate` compiles: what their kernels ask of the host, and the lines of their mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ckwatch.cli import main

pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(1800)]

HOST_CALLS = """
#include <hip/hip_runtime.h>
#include <cassert>
#include <cstdio>

__global__ void print(int n) {
    printf("lane %d: %u %#x %c %lld\\n", -int(threadIdx.x), 3000000000u, 255, 'a' + threadIdx.x, -5000000000ll);
    if (threadIdx.x) return;
    printf("[%8.2f] [%-6d] [%06d] [%*d] [%.*f] %g\\n", 2.718281, 42, 42, 5, n, 2, 3.14159, 0.5f);
    printf("[%6s] [%-6s] [%.2s] %s %p %%\\n", "right", "left", "cut", n > 3 ? "more than three" : "less", (void*)0x1234);
    printf("%s|%s|%d\\n", "longer than the fifty-six bytes that one packet takes from a lane", "", 99);
    printf("%d\\n", printf("seven!\\n"));
}

__global__ void check(const int* values, int limit) { assert(values[threadIdx.x] < limit); }

struct Node { int value; Node* next; };

__global__ void link(Node** heads) {
    for (int n = 0; n < 3; ++n) {
        Node* node = (Node*)malloc(sizeof(Node));
        node->value = threadIdx.x + n;
        node->next = heads[threadIdx.x];
        heads[threadIdx.x] = node;
    }
}

__global__ void sum(Node** heads, int* sums) {
    int* parts = new int[2000];
    for (Node *node = heads[threadIdx.x], *next; node; node = next) {
        parts[0] = node == heads[threadIdx.x] ? node->value : parts[0] + node->value;
        next = node->next;
        free(node);
    }
    sums[threadIdx.x] = parts[0];
    delete[] parts;
}

namespace outer { namespace inner {
template <int Size> __global__ void beyond(int* out) {
    int* block = (int*)malloc(Size);
    block[Size / 4 + threadIdx.x] = 1;
    *out = block[threadIdx.x];
}
} }

int main(int count, char** arguments) {
    int values[4] = {1, 2, 3, 4}, *device;
    Node** heads;
    if (hipMalloc(&device, 16) || hipMalloc(&heads, 32) || hipMemset(heads, 0, 32)) return 3;
    if (hipMemcpy(device, values, 16, hipMemcpyHostToDevice)) return 3;
    std::printf("%s\\n", arguments[1]);
    switch (arguments[1][0]) {
        case 'p': print<<<1, 2>>>(7); break;
        case 'a': check<<<1, 4>>>(device, 3); break;
        case 'm': link<<<1, 4>>>(heads); sum<<<1, 4>>>(heads, device); break;
        case 'b': outer::inner::beyond<8192><<<1, 1>>>(device); break;
    }
    std::printf("%s\\n", hipGetErrorName(hipDeviceSynchronize()));
    if (arguments[1][0] == 'm' && !hipMemcpy(values, device, 16, hipMemcpyDeviceToHost))
        std::printf("%d %d %d %d\\n", values[0], values[1], values[2], values[3]);
}
"""

PRINTED = """print
lane 0: 3000000000 0xff a -5000000000
lane -1: 3000000000 0xff b -5000000000
[    2.72] [42    ] [000042] [    7] [3.14] 0.5
[ right] [left  ] [cu] more than three 0x1234 %
longer than the fifty-six bytes that one packet takes from a lane||99
seven!
7
hipSuccess
"""


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(HOST_CALLS.splitlines(), 1) if text in line)


@pytest.mark.parametrize(("arch", "level"), [("gfx942", "-O0"), ("gfx1100", "-O3")])
def test_kernels_print_assert_and_allocate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arch: str, level: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("calls.hip").write_text(HOST_CALLS)

    def run(mode: str) -> tuple[int, str, str]:
        status = main(["emulate", "--arch", arch, f"--flags={level}", "calls.hip", mode])
        said = capfd.readouterr()
        return status, said.out, said.err.replace("Building the emulator (once) …\n", "")

    status, out, err = run("print")
    assert (status, out) == (0, PRINTED)
    assert err == f"Compiling calls.hip for {arch} …\n"
    status, out, err = run("malloc")
    assert (status, out.splitlines()[1:], err) == (0, ["hipSuccess", "3 6 9 12"], "")
    status, out, err = run("assert")
    assert (status, out) == (1, "assert\nhipErrorLaunchFailure\n")
    line = line_of("assert(values")
    failed = (
        f"calls.hip:{line}: void check(const int *, int): Device-side assertion `values[threadIdx.x] < limit' failed."
    )
    said = err.replace(f"{tmp_path}/", "").splitlines()
    assert said[:2] == [failed, failed]
    assert said[2].startswith(f"calls.hip:{line}:1: error: check: the kernel stops at a failed assertion: ")
    assert failed in said[2]
    assert said[3] == f"{line:5} | {HOST_CALLS.splitlines()[line - 1]}"
    status, out, err = run("beyond")
    assert (status, out) == (1, "beyond\nhipSuccess\n")
    said = err.splitlines()
    line = line_of("block[Size / 4")
    assert said[0].startswith(f"calls.hip:{line}:")
    name = "outer::inner::beyond<8192>"
    assert f": error: {name}: writes 4 bytes beyond the end of an allocation (8,192 bytes) at `" in said[0]
    assert said[1] == f"{line:5} |     block[Size / 4 + threadIdx.x] = 1;"


BUFFERED = """
#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void print(const char* format, int n) {
    printf("%d %s %.1f\\n", int(threadIdx.x), n > 3 ? "more" : "less", 0.5 * n);
    if (threadIdx.x == 0) printf(n > 3 ? "chosen %d\\n" : "not chosen %d\\n", n);
}

int main() {
    print<<<1, 2>>>(nullptr, 4);
    std::printf("%s\\n", hipGetErrorName(hipDeviceSynchronize()));
}
"""


def test_a_kernel_may_print_into_a_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("buffered.hip").write_text(BUFFERED)
    assert main(["emulate", "--flags=-O1 -mprintf-kind=buffered", "buffered.hip"]) == 0
    assert capfd.readouterr().out == "0 more 2.0\n1 more 2.0\nchosen 4\nhipSuccess\n"


def test_a_source_that_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.hip").write_text(
        "#include <hip/hip_runtime.h>\n__global__ void k(int* y) { y[0] = undefned; }\nint main() {}\n"
    )
    assert main(["emulate", "wrong.hip"]) == 1
    assert capfd.readouterr().err.splitlines()[1:] == [
        "wrong.hip:2:36: error: use of undeclared identifier 'undefned' [clang/undeclared-identifier]",
        "    2 | __global__ void k(int* y) { y[0] = undefned; }",
        "      |                                    ^^^^^^^^",
        "ckwatch: wrong.hip does not compile for gfx942",
    ]
