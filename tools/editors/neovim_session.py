"""A headless Neovim with ckwatch's plugin, driven by Lua."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.editors.example import ROOT
from tools.editors.patience import PATIENCE_S, ask_until

DRIVER = Path(__file__).with_name("neovim_driver.lua")

_SLICE_S = 0.5

_WAIT = """
local seconds, source = ...
local condition = assert(loadstring('return ' .. source))
local last
vim.wait(seconds * 1000, function() last = condition() return last end, 50)
return last
"""


class LuaError(Exception):
    """A chunk of Lua failed; the message has Neovim's own words."""


class NeovimError(AssertionError):
    """What was waited for did not come, or Neovim has gone."""


class Neovim:
    """Neovim with `files` open and the plugin on its runtime path, and nothing of the user's configuration.

    `before` is Lua that runs before any file is opened.
    """

    def __init__(
        self,
        program: str,
        *files: Path,
        directory: Path,
        env: Mapping[str, str],
        runtime: Sequence[Path] = (),
        before: str = "",
    ) -> None:
        path = ",".join(str(folder) for folder in (ROOT / "editors/neovim", *runtime))
        settings = ["--cmd", f"set runtimepath^={path} columns=160 lines=50 noswapfile"]
        settings += ["--cmd", f"lua {before}"] if before else []
        self._command = [program, "--clean", "--headless", *settings, *map(str, files), "-S", str(DRIVER)]
        self._directory, self._env = directory, env
        self._count = 0

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            cwd=self._directory,
            env=dict(self._env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None  # noqa: S101 - opened with pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def lua(self, source: str, *arguments: object, timeout_s: float = PATIENCE_S) -> Any:
        """The value that a chunk of Lua returns; its `...` are the arguments. Raises LuaError where it fails."""
        assert self._process.stdin is not None  # noqa: S101 - opened with pipes
        self._count += 1
        request = {"id": self._count, "lua": source, "arguments": arguments}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        reply = self._reply(time.monotonic() + timeout_s)
        if not reply["done"]:
            raise LuaError(reply["result"])
        return reply["result"]

    def keys(self, typed: str) -> None:
        """Type keys by Vim's names: `A<C-x><C-o>`."""
        self.lua("vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(..., true, true, true), 't', false)", typed)

    def wait_for(self, condition: str, *, timeout_s: float = PATIENCE_S) -> Any:
        """The value of a Lua expression once it is neither nil nor false; Neovim looks at it while it works on."""
        end = time.monotonic() + timeout_s
        # Keys are read between two chunks of Lua only.
        while not (found := self.lua(_WAIT, _SLICE_S, condition)) and time.monotonic() < end:
            continue
        if not found:
            state = self.lua(_STATE)
            raise NeovimError(f"never true: {condition}\n{json.dumps(state, indent=1, ensure_ascii=False)}")
        return found

    def ask_until(self, ask: Callable[[], object], condition: str) -> Any:
        """The value of a Lua expression once it is neither nil nor false; `ask` is called until then."""
        return ask_until(ask, lambda pause_s: self.wait_for(condition, timeout_s=pause_s))

    def _reply(self, end: float) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - opened with pipes
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, end - time.monotonic()))
            more = self._process.stdout.readline() if ready else b""
            if not more:
                raise NeovimError("Neovim has ended" if ready else "Neovim does not answer")
            line += more
        reply: dict[str, Any] = json.loads(line)
        return reply


_STATE = """
local said = {}
local log = vim.lsp.log.get_filename()
for _, diagnostic in ipairs(vim.diagnostic.get()) do
  local file = vim.api.nvim_buf_get_name(diagnostic.bufnr)
  table.insert(said, ('%s:%d %s %s'):format(file, diagnostic.lnum, diagnostic.code, diagnostic.message))
end
return {
  messages = vim.api.nvim_exec2('messages', { output = true }).output,
  diagnostics = said,
  clients = vim.tbl_map(function(client)
    return client.name .. ' ' .. tostring(client.root_dir)
  end, vim.lsp.get_clients()),
  status = require('ckwatch').statusline(),
  log = vim.fn.filereadable(log) == 1 and vim.fn.readfile(log, '', -10) or {},
}
"""
