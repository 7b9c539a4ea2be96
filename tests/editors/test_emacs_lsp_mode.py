"""Emacs with lsp-mode: the settings against a scripted server, and what it shows of the real one."""

from __future__ import annotations

import pytest

from tools.editors.emacs_session import LSP_MODE, Emacs
from tools.editors.example import Example
from tools.editors.stage import Stage

pytestmark = [pytest.mark.editors, pytest.mark.timeout(3600)]


def test_errors_hints_and_lenses_are_on_the_screen(emacs: str, tmux: str, stage: Stage) -> None:
    with Emacs(emacs, tmux, stage.template, directory=stage.folder, env=stage.env, setup=LSP_MODE) as shown:
        shown.terminal.wait_for(r"first 41.57 µs line of \{\{ name \}\} run\|setBaseline\|openSource")
        shown.wait_for("(= (length (flymake-diagnostics)) 1)")
        shown.lisp("(progn (ckwatch-log) t)")
        shown.terminal.wait_for("text of showLog")


@pytest.mark.toolchain
def test_an_error_and_figures_of_the_example(emacs: str, tmux: str) -> None:
    with Example("gemm", "gemm_f16", ("v3_128x128x64_intrawave",)) as example:
        example.ckwatch("build")
        with Emacs(emacs, tmux, example.kernel, directory=example.root, env=example.env, setup=LSP_MODE) as shown:
            shown.lisp('(progn (goto-char (point-min)) (search-forward "[[instance]]") (recenter 5) t)')
            shown.terminal.wait_for(r"\(CK-Kernel 1 unit")
            shown.lisp(
                """
                (progn (goto-char (point-min)) (search-forward "MXdlPerWave = 2") (replace-match "MXdlPerWave = 3") t)
                """
            )
            rule = "MPerBlock % (MPerXdl \\\\* MXdlPerWave) == 0"
            shown.wait_for(
                f'(string-match-p "{rule}" (mapconcat (lambda (one) (flymake-diagnostic-text one)) (flymake-diagnostics)))'
            )
            shown.lisp("(progn (undo-boundary) (undo) t)")
            shown.wait_for("(null (flymake-diagnostics))")
            shown.lisp('(progn (goto-char (point-min)) (search-forward "[[instance]]") (recenter 5) t)')
            shown.terminal.wait_for("190 VGPR")
