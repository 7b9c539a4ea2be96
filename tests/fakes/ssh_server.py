"""`python ssh_server.py FOLDER`: a server of ssh on this machine that lets in the key `FOLDER/user`; prints its port."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, create_subprocess_exec
from pathlib import Path

import asyncssh


def make_keys(folder: Path) -> None:
    """Those of the host and of a user."""
    folder.mkdir()
    for name in ("host", "user"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(str(folder / name))
        key.write_public_key(str(folder / f"{name}.pub"))


async def _run(process: asyncssh.SSHServerProcess[str]) -> None:
    words = ("/bin/sh", "-c", process.command or "")
    command = await create_subprocess_exec(*words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE)
    assert command.stdout is not None
    assert command.stderr is not None
    # `process.redirect` goes on after the exit, and the connection would be closed for what it still writes.
    await asyncio.gather(_copy(command.stdout, process.stdout), _copy(command.stderr, process.stderr))
    process.exit(await command.wait())


async def _copy(output: asyncio.StreamReader, channel: asyncssh.SSHWriter[str]) -> None:
    while text := await output.read(1 << 16):
        channel.write(text.decode(errors="replace"))


async def _serve(folder: Path) -> None:
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(folder / "host")],
        authorized_client_keys=str(folder / "user.pub"),
        process_factory=_run,
    )
    print(server.get_port(), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1])))
