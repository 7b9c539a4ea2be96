"""A workspace whose sweep makes combinations that the instance rules refuse."""

from __future__ import annotations

from pathlib import Path

from cases.rule_instances import OPERATION, row_col
from helpers.workspaces import gemm_kernel

SWEPT = ("MPerBlock", "MXdlPerWave")


def swept_template() -> str:
    """An instance in C++ whose `SWEPT` parameters are those of the kernel file."""

    def text(name: str, value: object) -> str:
        if name in SWEPT:
            return f"{{{{ {name} }}}}"
        if isinstance(value, bool):
            return str(value).lower()
        return f"S<{', '.join(map(str, value))}>" if isinstance(value, tuple) else str(value)

    lines = ",\n".join(f"    /* {name} */ {text(name, value)}" for name, value in row_col().items())
    return f"int {{{{ KERNEL_NAME }}}}();\nusing G = ck::tensor_operation::device::{OPERATION}<\n{lines}>;\n"


def sweep_table(values: list[int], more: str = "") -> str:
    """A sweep `s` over MXdlPerWave; with MPerBlock = 128, 3 is refused and 1 and 2 are not."""
    return f'[[sweep]]\nname = "s"\nbase = "one"\n{more}[sweep.parameters]\nMXdlPerWave = {values}\n'


def swept_workspace(root: Path, sweep: str, m_xdl: int = 2) -> Path:
    """The workspace in `root`, with the instance `one` beside the sweep; the path of its kernel file."""
    (root / "templates").mkdir(parents=True, exist_ok=True)
    (root / "ckwatch.toml").touch()
    (root / "templates/t.hip.j2").write_text(swept_template())
    path = root / "k.kernel.toml"
    path.write_text(gemm_kernel("t.hip.j2", {"one": {"MPerBlock": 128, "MXdlPerWave": m_xdl}}) + sweep)
    return path
