"""What `-march=native` means here.

The name of the processor and a hash of its features stand for the host in keys. The compiler is asked once per
toolchain and processor; the answer is kept beside the store, so that a build of what is known starts no process.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path

import anyio.to_thread

from ckwatch.compile.processes import run_process
from ckwatch.compile.request import CompilerToolchain
from ckwatch.errors import ToolchainError

_MEMO = "host-cpu.json"
_CPU = re.compile(r'"-target-cpu" "([^"]+)"')
_FEATURE = re.compile(r'"-target-feature" "([^"]+)"')
_CPUINFO = re.compile(
    r"^(?:model name|vendor_id|cpu family|model|stepping|flags|Features|CPU part)\s*:.*$", re.MULTILINE
)


async def host_arch(toolchain: CompilerToolchain, memo_folder: Path | None = None) -> str:
    """The resolved host processor, `znver3-1a2b3c4d`: its name for clang and a hash of its features.

    Raises ToolchainError when clang cannot tell.
    """
    processor = await anyio.to_thread.run_sync(_processor)
    question = hashlib.sha256(f"{toolchain.identity}\n{processor}".encode()).hexdigest()
    known = await anyio.to_thread.run_sync(_read_memo, memo_folder)
    if question in known:
        return known[question]
    arguments = [
        str(toolchain.clangxx),
        *toolchain.cpp_arguments,
        "-march=native",
        "-x",
        "c++",
        "-E",
        "-###",
        "/dev/null",
    ]
    done = await run_process(arguments, environment=toolchain.environment, folder=Path("/"), timeout_s=60)
    cpu = _CPU.search(done.stderr)
    if cpu is None:
        raise ToolchainError(
            f"{toolchain.clangxx} does not know this processor (-march=native)", done.stderr.strip()[-400:] or None
        )
    features = hashlib.sha256("\n".join(sorted(_FEATURE.findall(done.stderr))).encode()).hexdigest()
    answer = f"{cpu[1]}-{features[:8]}"
    await anyio.to_thread.run_sync(_write_memo, memo_folder, {**known, question: answer})
    return answer


def _processor() -> str:
    """What the kernel says of the first processor; empty where it says nothing."""
    with suppress(OSError):
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
        return "\n".join(_CPUINFO.findall(first))
    return ""


def _read_memo(folder: Path | None) -> dict[str, str]:
    if folder is not None:
        with suppress(OSError, ValueError):
            known = json.loads((folder / _MEMO).read_bytes())
            if isinstance(known, dict):
                return {str(question): str(answer) for question, answer in known.items()}
    return {}


def _write_memo(folder: Path | None, known: dict[str, str]) -> None:
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f".{_MEMO}.{hashlib.sha256(json.dumps(known).encode()).hexdigest()[:8]}"
            temporary.write_text(json.dumps(known))
            temporary.replace(folder / _MEMO)
