"""Which kernels a sample of the workgroups stands for, and who wrote a place: on the emulator itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ckwatch.compile.toolchain.discover import discover
from helpers.hip_compiles import compiled

SOURCE = Path(__file__).parents[1] / "cases" / "sampled_kernels.hip"
pytestmark = [pytest.mark.toolchain, pytest.mark.timeout(600)]

WHY_WHOLE = {
    "independent": {""},
    "two_launches": {"a launch reads what an earlier one writes"},
    "overwritten": {"several launches write to one tensor"},
    "atomics": {"workgroups change memory by atomic operations"},
    "foreign_reads": {"a workgroup reads what it has not written", "a workgroup reads what another one writes"},
    "variables": {"a workgroup changes memory that outlives the launch"},
    "copied": {"what a kernel writes is copied or filled"},
}
"""Either, where it depends on which of two workgroups comes first."""


@pytest.fixture(scope="module")
def found(library: Path) -> dict[str, Any]:
    toolchain = discover()
    flags = ("--offload-arch=gfx942", "-O1", "-shared", "-fPIC", *toolchain.link_arguments)
    shared = compiled(SOURCE.read_text(), toolchain, *flags)
    script = Path(__file__).with_name("sampled_launches.py")
    command = [sys.executable, str(script), str(library), str(toolchain.objdump), str(shared), *WHY_WHOLE]
    ended = subprocess.run(command, env=dict(os.environ), stdout=subprocess.PIPE, check=True)
    return dict(json.loads(ended.stdout))


@pytest.mark.parametrize("name", WHY_WHOLE)
def test_a_sample_ends_where_a_workgroup_needs_what_others_do(name: str, found: dict[str, Any]) -> None:
    assert found[name]["why"] in WHY_WHOLE[name]


def test_what_a_sample_writes_is_known(found: dict[str, Any]) -> None:
    one = found["independent"]
    computed, of = one["workgroups"]
    assert of == 256
    assert 20 <= computed <= 47
    assert one["written"] == computed * 64 * 4
    assert (one["first"], one["last"]) == (True, True)


def test_the_last_writer_of_a_place(found: dict[str, Any]) -> None:
    (store,) = found["independent"]["watched"]
    assert (store["kind"], store["workgroup"], store["lane"]) == ("wrong-result", [3, 0, 0], 5)
    assert store["instruction"].startswith("global_store")
