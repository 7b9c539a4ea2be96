"""The demo: real Composable Kernel templates, a real hipcc, and errors where they were made.

Builds three instances of the GEMM example for gfx942, twice (the second time from the store), then makes a few mistakes
in a copy of it and shows what ckwatch says.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CKWATCH = str(Path(sys.executable).with_name("ckwatch"))

MISTAKES = [
    ("an instance that Composable Kernel would reject", "gemm_f16.kernel.toml", "MXdlPerWave = 2", "MXdlPerWave = 3"),
    ("an unknown element type", "gemm_f16.kernel.toml", 'dtype = "f16"', 'dtype = "f17"'),
    ("a misspelt Jinja variable", "templates/ck/epilogue.j2", None, "// {{ activaton }}\n"),
    ("a misspelt C++ name", "templates/ck/gemm_universal.hip.j2", "PassThrough{},", "PassThru{},"),
]


def ckwatch(*arguments: str, folder: Path = ROOT) -> int:
    """Run a command, shown as a person would type it."""
    print(f"\n$ ckwatch {' '.join(arguments)}", flush=True)
    return subprocess.run([CKWATCH, *arguments], cwd=folder).returncode


def break_and_show(what: str, file: str, old: str | None, new: str) -> None:
    """Make one mistake in a copy of the example and check it; a C++ mistake needs the compiler."""
    print(f"\n=== {what}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "gemm"
        shutil.copytree(ROOT / "examples/gemm", copy)
        path = copy / file
        if not path.exists():
            import ckwatch_templates  # the interpreter of the environment has it

            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ckwatch_templates.ROOT / Path(file).relative_to("templates"), path)
        text = path.read_text()
        path.write_text(text.replace(old, new, 1) if old else new + text)
        compiles = "PassThru" in new
        ckwatch("build" if compiles else "check", "gemm_f16/v3_128*", folder=copy)


def main() -> int:
    """Build, then break."""
    ckwatch("doctor")
    status = ckwatch("build", "-C", "examples/gemm", "gemm_f16/v[13]_128*")
    ckwatch("build", "-C", "examples/gemm", "gemm_f16/v[13]_128*")
    for mistake in MISTAKES:
        break_and_show(*mistake)
    print("\n`ckwatch build examples/gemm` compiles all 20 instances, in about ten minutes on two cores.")
    print("Next: `ckwatch init` in a folder of your own, or open examples/gemm and edit a template.")
    return status


if __name__ == "__main__":
    sys.exit(main())
