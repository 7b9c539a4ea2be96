"""Arrays of a lane in scratch, by the lines of the instructions that access it."""

from __future__ import annotations

import pytest

from ckwatch.checks.places import RenderedFile
from ckwatch.codeobject.disassembly import DisassembledFunction, Instruction
from ckwatch.codeobject.kernel_sources import SourceTexts
from ckwatch.codeobject.scratch_places import ScratchUse, scratch_use, unroll_edits
from ckwatch.codeobject.source_lines import SourceFrame
from helpers.clang_logs import mapped

TEXT = """\
__global__ void k(const int* in, int* out, int n) {
  int bins[200];
  for (int b = 0; b < 200; ++b) bins[b] = 0;
  for (int i = 0; i < n; ++i)
    bins[in[i] % 200] += 1;
  out[0] = bins[3] + in[n];
}
"""


def used(*instructions: tuple[str, int]) -> tuple[ScratchUse, SourceTexts]:
    """The scratch of a kernel with these instructions, each of a line of the text."""
    texts = SourceTexts(RenderedFile("kernel.hip", mapped(TEXT)), {})
    made = tuple(Instruction(8 * at, text.partition(" ")[0], text, 8) for at, (text, _) in enumerate(instructions))
    frames = {8 * at: (SourceFrame("k", "kernel.hip", line),) for at, (_, line) in enumerate(instructions)}
    return scratch_use(DisassembledFunction("k", 0, made), frames, texts), texts


@pytest.mark.parametrize(
    ("instructions", "arrays"),
    [
        ([("scratch_store_dwordx4 off, v[0:3], s2", 3)], [("bins", "b", False)]),
        ([("scratch_load_dword v1, v2, off", 5)], [("bins", "in[i] % 200", True)]),
        ([("buffer_store_dword v1, v2, s[0:3], 0 offen", 5)], [("bins", "in[i] % 200", False)]),
        ([("buffer_store_dword v1, v2, s[4:7], 0 offen", 5), ("global_load_dword v1, v[2:3], off", 3)], []),
    ],
)
def test_the_arrays_of_lines_that_access_scratch(
    instructions: list[tuple[str, int]], arrays: list[tuple[str, str, bool]]
) -> None:
    use, _ = used(*instructions)

    assert [(one.accesses[0].name, one.accesses[0].index, one.by_lane) for one in use.arrays] == arrays


def test_lines_without_an_array_are_known_by_their_place_and_calls_are_told() -> None:
    use, texts = used(("scratch_load_dword v1, off, off", 1), ("s_swappc_b64 s[30:31], s[0:1]", 1))

    assert [texts.text[start:end][:10] for start, end in use.lines] == ["__global__"]
    assert use.calls


def test_a_loop_that_indexes_an_array_is_unrolled_by_a_directive_of_its_own_line() -> None:
    use, texts = used(("scratch_store_dwordx4 off, v[0:3], s2", 3))

    made = texts.edited(unroll_edits(use.arrays[0], texts))

    assert made == TEXT.replace("  for (int b", "  #pragma unroll\n  for (int b")
