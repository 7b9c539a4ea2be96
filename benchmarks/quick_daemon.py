"""The daemon as a process of its own, as `ckwatch start` makes it, with the compiler that is done at once.

`ROOT --ready-fd N` as for `ckwatch.server`; the compiler lies beside ROOT. With QUICK_DAEMON_INSIDE compilers are no
processes and nothing is forced onto the disk, so that it is the daemon's own work that is measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = str(Path(__file__).parent.parent)
PROGRAM = (sys.executable, "-P", str(Path(__file__)))
INSIDE = "QUICK_DAEMON_INSIDE"


@contextmanager
def own_trust() -> Iterator[None]:
    """The list of trusted workspaces is not the user's own while the body runs."""
    from unittest import mock  # not loaded by the daemon, whose memory is measured

    with (
        TemporaryDirectory(prefix="ckwatch-") as folder,
        mock.patch.dict(os.environ, {"CKWATCH_TRUST_FILE": f"{folder}/trusted"}),
    ):
        yield


@contextmanager
def apart(**variables: str) -> Iterator[None]:
    """Sockets, logs, histories and trust of daemons are not the user's own while the body runs."""
    from unittest import mock

    with TemporaryDirectory(prefix="ckwatch-") as folder:
        places = {name: f"{folder}/{name[4:7].lower()}" for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")}
        for place in places.values():
            Path(place).mkdir(mode=0o700)
        with mock.patch.dict(os.environ, {**places, "CKWATCH_TRUST_FILE": f"{folder}/trusted", **variables}):
            yield


@asynccontextmanager
async def daemon_of(root: Path, program: tuple[str, ...] = PROGRAM) -> AsyncIterator[int]:
    """Start the daemon of a workspace, and stop it at the end; its process. To be used `apart`."""
    from ckwatch.client import connect
    from ckwatch.client.launch import ensure_daemon
    from ckwatch.workspace.trust import trust

    trust(root)
    await ensure_daemon(root, program=program)
    async with connect(root, start=False) as client:
        yield (await client.status()).pid
        await client.stop()


def main() -> int:
    """Be the daemon."""
    sys.path.insert(0, REPOSITORY)
    from benchmarks.quick_compiler import QuickCompiler
    from ckwatch.engine import bootstrap
    from ckwatch.server.__main__ import main as serve

    compiler = QuickCompiler(Path(sys.argv[1]).parent / "compiler")
    chosen: dict[str, object] = {"find_toolchain": compiler.find_toolchain}
    if os.environ.get(INSIDE):
        chosen["launch"] = compiler.inside()
        os.fsync = lambda fd: None  # noqa: ARG005  # beside real compilers it is little; here it would be all that is measured
    bootstrap.open_engine = partial(bootstrap.open_engine, **chosen)  # type: ignore[arg-type]
    return serve(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
