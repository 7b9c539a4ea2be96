"""Messages of clang, through the wire."""

from __future__ import annotations

from pathlib import Path

import pytest

import ckwatch_templates
from ckwatch.workspace.trust import trust
from lsp.editing import copy_of, editor, place

pytestmark = pytest.mark.toolchain


async def test_an_error_of_the_compiler_with_its_note_and_fix(tmp_path: Path) -> None:
    root = copy_of("hip", tmp_path)
    (root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
    (root / "gemm_f8_row_scales.kernel.toml").unlink()
    kernel = root / "gemm_bf16_bias_silu.kernel.toml"
    kernel.write_text(kernel.read_text().replace("hip/gemm_tiled.hip.j2", "own.hip.j2"))
    (root / "templates").mkdir()
    file = root / "templates/own.hip.j2"
    file.write_text((Path(ckwatch_templates.__file__).parent / "hip/gemm_tiled.hip.j2").read_text())
    trust(root)
    async with editor(root, settings={"buildFirst": "active"}) as made:
        await made.open(file)
        declared = made.text(file).index("lds_bytes_per_block")
        used = made.text(file).index("lds_bytes_per_block", declared + 1)
        before, after = made.text(file)[used - 20 : used], made.text(file)[used + 19 : used + 30]
        await made.replace(file, f"{before}lds_bytes_per_block{after}", f"{before}lds_bytes_per_blok{after}")
        (found,) = await made.diagnosed(  # an error comes before the compiler has written its note
            file, lambda found: len(found) == 1 and "relatedInformation" in found[0]
        )
        text = made.text(file)
        assert found["code"] == "clang/undeclared-identifier"
        assert found["message"].startswith("use of undeclared identifier 'lds_bytes_per_blok'; did you mean")
        assert found["range"]["start"] == place(text, used)
        note = next(one for one in found["relatedInformation"] if "declared here" in one["message"])
        assert note["location"]["uri"] == file.as_uri()
        assert note["location"]["range"]["start"] == place(text, declared)
        (fix,) = found["data"]["fixes"]
        assert fix["newText"] == "lds_bytes_per_block"
        assert fix["range"] == {"start": place(text, used), "end": place(text, used + len("lds_bytes_per_blok"))}
        await made.replace(file, f"lds_bytes_per_blok{after}", f"lds_bytes_per_block{after}")
        await made.diagnosed(file, lambda found: not found)
