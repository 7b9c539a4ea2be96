"""Entries that tests of the store publish."""

from __future__ import annotations

from collections.abc import Callable

from ckwatch.compile.store.entries import Artifact, ArtifactRecord, CompilerCommand

RECORD = ArtifactRecord(
    ok=True,
    symbol="k_1",
    arch="gfx942",
    language="hip",
    toolchain="clang 22",
    source="kernel.hip",
    commands=(CompilerCommand(("hipcc", "-c", "größe.hip"), 0, 1.5, 1 << 20),),
    exports=("k_1",),
)
KEY = "ab" + "0" * 62

Publish = Callable[..., Artifact]
