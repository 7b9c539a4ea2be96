"""Emacs in a terminal with ckwatch.el and Eglot, driven by Lisp and by keys, read by Lisp and as screen text."""

from __future__ import annotations

import json
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tools.editors.example import ROOT
from tools.editors.patience import PATIENCE_S, ask_until
from tools.editors.terminal import Terminal

DRIVER = Path(__file__).with_name("emacs_driver.el")

EGLOT = f"""
(progn (setq inhibit-startup-screen t make-backup-files nil auto-save-default nil native-comp-jit-compilation nil
             native-comp-enable-subr-trampolines nil eglot-autoshutdown t
             confirm-kill-processes nil use-short-answers t eglot-connect-timeout {PATIENCE_S})
       (require 'jsonrpc)
       (setq jsonrpc-default-request-timeout {PATIENCE_S})
       (require 'ckwatch)
       (dolist (hook '(ckwatch-template-mode-hook ckwatch-kernel-mode-hook)) (add-hook hook #'eglot-ensure)))
"""

LSP_MODE = f"""
(progn (setq lsp-response-timeout {PATIENCE_S}
             inhibit-startup-screen t make-backup-files nil auto-save-default nil native-comp-jit-compilation nil
             native-comp-enable-subr-trampolines nil confirm-kill-processes nil use-short-answers t
             lsp-session-file (expand-file-name "lsp-session" (getenv "HOME")) lsp-auto-guess-root t
             lsp-guess-root-without-session t lsp-enable-snippet nil lsp-headerline-breadcrumb-enable nil
             lsp-inlay-hint-enable t lsp-lens-enable t lsp-diagnostics-provider :flymake
             lsp-modeline-workspace-status-enable nil lsp-modeline-diagnostics-enable nil
             lsp-modeline-code-actions-enable nil)
       (let ((default-directory (expand-file-name "../../site-lisp/elpa-src/" (getenv "EMACSDATA"))))
         (normal-top-level-add-subdirs-to-load-path))
       (require 'ckwatch) (require 'lsp-mode) (require 'lsp-lens) (require 'lsp-diagnostics)
       (dolist (hook '(ckwatch-template-mode-hook ckwatch-kernel-mode-hook)) (add-hook hook #'lsp)))
"""

_STATE = """
(list :messages (with-current-buffer (messages-buffer) (buffer-string))
      :buffers (mapcar #'buffer-name (buffer-list))
      :events (let ((server (and (fboundp 'eglot-current-server) (eglot-current-server))))
                (and server (with-current-buffer (jsonrpc-events-buffer server)
                              (replace-regexp-in-string
                               "[^ -~\n]" "?" (buffer-substring (max (point-min) (- (point-max) 3000)) (point-max)))))))
"""


class LispError(Exception):
    """A form failed; the message has Emacs's own words."""


class EmacsError(AssertionError):
    """What was waited for did not come, or Emacs has gone."""


class Emacs:
    """Emacs with `file` open, and nothing of the user's configuration."""

    def __init__(
        self, program: str, tmux: str, file: Path, *, directory: Path, env: Mapping[str, str], setup: str = EGLOT
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ck-emacs-")
        self._socket = str(Path(self._folder.name, "socket"))
        command = [
            program,
            "-Q",
            "-nw",
            "-L",
            str(ROOT / "editors/emacs"),
            "--eval",
            setup,
            "-l",
            str(DRIVER),
            str(file),
        ]
        environment = {**env, "DRIVER_SOCKET": self._socket}
        self.terminal = Terminal(tmux, command, directory=directory, env=environment)
        self._count = 0
        self._unread = b""

    def __enter__(self) -> Self:
        self.terminal.__enter__()
        self._connection = socket.socket(socket.AF_UNIX)
        try:
            self.terminal.wait_for(r"\(CK-")  # a mode of ours: the driver was loaded before the file
            self._connection.connect(self._socket)
        except BaseException:
            self._connection.close()
            self.terminal.__exit__(None, None, None)
            self._folder.cleanup()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError, EmacsError, LispError):
            self.lisp(
                "(progn (dolist (buffer (buffer-list)) (with-current-buffer buffer (set-buffer-modified-p nil))) "
                "(run-with-timer 0 nil #'kill-emacs) t)"
            )
        self._connection.close()
        self.terminal.__exit__(kind, error, trace)
        self._folder.cleanup()

    def lisp(self, form: str, *, timeout_s: float = PATIENCE_S) -> Any:
        """The value of a form in the buffer of the selected window. Raises LispError where it fails."""
        return self._ask({"lisp": form}, timeout_s)

    def wait_for(self, form: str, *, timeout_s: float = PATIENCE_S) -> Any:
        """The value of a form once it is not nil."""
        found = self._ask({"lisp": form, "wait": timeout_s}, timeout_s + PATIENCE_S)
        if found is None:
            state = json.dumps(self.lisp(_STATE), indent=1, ensure_ascii=False)
            raise EmacsError(f"never true: {form}\n{state}\n{self.terminal.screen()}")
        return found

    def ask_until(self, ask: Callable[[], object], form: str) -> Any:
        """The value of a form once it is not nil; `ask` is called until then."""
        return ask_until(ask, lambda pause_s: self.wait_for(form, timeout_s=pause_s))

    def _ask(self, request: Mapping[str, object], timeout_s: float) -> Any:
        self._count += 1
        self._connection.sendall(json.dumps({"id": self._count, **request}).encode() + b"\n")
        end = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            self._connection.settimeout(max(0.01, end - time.monotonic()))
            try:
                more = self._connection.recv(1 << 16)
            except TimeoutError:
                raise EmacsError(f"Emacs does not answer:\n{self.terminal.screen()}") from None
            if not more:
                raise EmacsError("Emacs has ended")
            self._unread += more
        line, _, self._unread = self._unread.partition(b"\n")
        reply = json.loads(line)
        if not reply["done"]:
            raise LispError(reply["result"])
        return reply["result"]
