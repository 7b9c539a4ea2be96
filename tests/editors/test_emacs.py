"""Emacs and Eglot with the real language server, daemon, compiler and example."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.editors.emacs_session import Emacs
from tools.editors.example import BRIEF_TIMING, Example
from tools.editors.patience import ask_until

pytestmark = [pytest.mark.editors, pytest.mark.toolchain, pytest.mark.timeout(3600)]

INSTANCES = ("v3_128x128x64_intrawave", "v1_128x128x64_intrawave")
EPILOGUE = "ck/epilogue.j2"
CPP = "ck/gemm_kernel.j2"
FIGURES = r"^\s*\[\[instance\]\].*190 VGPR"


@pytest.fixture(scope="module")
def gemm() -> Iterator[Example]:
    """Two instances of the f16 GEMM, built, and two templates of their own."""
    with Example("gemm", "gemm_f16", INSTANCES, templates=(EPILOGUE, CPP)) as made:
        made.ckwatch("build")
        yield made


class Session:
    """An Emacs with one file of the example."""

    def __init__(self, emacs: str, tmux: str, example: Example, path: Path) -> None:
        self.emacs = Emacs(emacs, tmux, path, directory=example.root, env=example.env)

    def substitute(self, old: str, new: str) -> None:
        """Replace the first `old`, as if it were typed."""
        self.emacs.lisp(f'(progn (goto-char (point-min)) (search-forward "{old}") (replace-match "{new}" t t) t)')

    def look_at(self, text: str) -> None:
        """Put point before the first `text`."""
        self.emacs.lisp(
            f'(progn (goto-char (point-min)) (search-forward "{text}") (goto-char (match-beginning 0)) (recenter 5) t)'
        )


@pytest.fixture
def kernel(emacs: str, tmux: str, gemm: Example) -> Iterator[Session]:
    """The kernel file, once its figures are on the screen."""
    session = Session(emacs, tmux, gemm, gemm.kernel)
    with session.emacs:
        session.emacs.wait_for("(eglot-current-server)")
        session.look_at("[[instance]]")
        session.emacs.terminal.wait_for(FIGURES)
        yield session


def error(emacs: Emacs, said: str) -> tuple[int, int, str]:
    """Line and column from zero and text of the first error with `said` in it, once there is one."""
    line, column, text = emacs.wait_for(
        f"""
        (seq-some (lambda (one)
                    (when (and (eq (flymake-diagnostic-type one) 'eglot-error)
                               (string-match-p (regexp-quote "{said}") (flymake-diagnostic-text one)))
                      (save-excursion
                        (goto-char (flymake-diagnostic-beg one))
                        (list (1- (line-number-at-pos)) (current-column) (flymake-diagnostic-text one)))))
                  (flymake-diagnostics))
        """
    )
    return line, column, text


RULE = "MPerBlock % (MPerXdl * MXdlPerWave) == 0"
NO_ERRORS = "(not (seq-some (lambda (one) (eq (flymake-diagnostic-type one) 'eglot-error)) (flymake-diagnostics)))"


def test_a_planted_error_is_at_its_place_and_goes_and_figures_come(kernel: Session, gemm: Example) -> None:
    kernel.substitute("MXdlPerWave = 2", "MXdlPerWave = 3")
    line, column, text = error(kernel.emacs, RULE)
    assert (line, column) == (gemm.line_of("MXdlPerWave = 2"), len("MXdlPerWave = "))
    assert "MPerBlock = 128" in text  # related information, which Eglot does not show by itself
    kernel.emacs.terminal.wait_for(r"^!!MXdlPerWave = 3 .*whole waves must cover it")  # Flymake's one line
    kernel.substitute("MXdlPerWave = 3", "MXdlPerWave = 2")
    kernel.emacs.wait_for(NO_ERRORS)
    kernel.emacs.terminal.wait_for(FIGURES)


def test_a_misspelt_variable_is_shown_in_its_template(emacs: str, tmux: str, gemm: Example) -> None:
    session = Session(emacs, tmux, gemm, gemm.root / "templates" / EPILOGUE)
    with session.emacs as opened:
        opened.wait_for("(eglot-current-server)")
        opened.lisp('(progn (goto-char (point-min)) (insert "// {{ activaton }}\\n") t)')
        line, column, _ = error(opened, "activaton")
        assert (line, column) == (0, len("// {{ "))
        opened.lisp("(progn (goto-char (point-min)) (delete-line) t)")
        opened.wait_for(NO_ERRORS)


def test_a_place_that_another_program_asks_for_is_shown(kernel: Session, gemm: Example) -> None:
    epilogue = gemm.root / "templates" / EPILOGUE
    line, column = gemm.place_of("operator()", epilogue)
    kernel.emacs.ask_until(
        lambda: gemm.show(epilogue, "operator()"),
        f"""
        (with-current-buffer (window-buffer (selected-window))
          (and (string-suffix-p "{EPILOGUE}" (or (buffer-file-name) ""))
               (equal (list (line-number-at-pos) (current-column)) '({line + 1} {column}))))
        """,
    )


def test_a_hover_tells_figures(kernel: Session) -> None:
    kernel.emacs.terminal.keys("C-c", "C-h")  # any key: ElDoc looks when Emacs is idle after a command
    kernel.emacs.terminal.keys("C-g")
    kernel.look_at("[instance]]")
    kernel.emacs.ask_until(
        lambda: kernel.emacs.terminal.keys("C-f", "C-b"),
        '(seq-some (lambda (b) (with-current-buffer b (and (string-match-p "eldoc" (buffer-name)) '
        '(string-match-p "VGPR" (buffer-string))))) (buffer-list))',
    )


def test_an_action_mends_a_mistake(kernel: Session) -> None:
    kernel.substitute("MXdlPerWave = 2", "MXdlPerWave = 3")
    error(kernel.emacs, RULE)
    kernel.look_at("3\\nNXdlPerWave")

    # as a command that a key called: it reads keys once there are actions
    ask = """
        (progn
          (defvar asking nil)
          (run-with-timer 0 nil
            (lambda ()
              (unless asking
                (let ((asking t) (last-nonmenu-event ?x))
                  (with-current-buffer (window-buffer (selected-window))
                    (ignore-errors (call-interactively #'eglot-code-actions)))))))
          t)
    """
    kernel.emacs.terminal.ask_until(lambda: kernel.emacs.lisp(ask), r"\[eglot\] Pick an action")
    kernel.emacs.terminal.type("Set MXdlPerWave to 2")
    kernel.emacs.terminal.keys("Enter")
    kernel.emacs.wait_for(NO_ERRORS)
    assert "MXdlPerWave = 3" not in kernel.emacs.lisp("(buffer-substring-no-properties (point-min) (point-max))")


def test_completion_offers_the_keys_of_an_instance(kernel: Session) -> None:
    kernel.emacs.lisp('(progn (goto-char (point-max)) (insert "MPer") t)')

    def ask() -> None:
        kernel.emacs.terminal.keys("M-x")
        kernel.emacs.terminal.type("completion-at-point")
        kernel.emacs.terminal.keys("Enter")

    offered = '(with-current-buffer "*Completions*" (string-match-p "MPerXDL" (buffer-string)))'
    kernel.emacs.ask_until(ask, f'(and (get-buffer "*Completions*") {offered})')


def test_the_generated_source_is_shown_and_leads_back(kernel: Session) -> None:
    kernel.emacs.lisp("(progn (ckwatch-source) t)")
    source = f'(get-buffer "{INSTANCES[0]}@gfx942.hip")'
    kernel.emacs.wait_for(
        f"(and {source} (with-current-buffer {source} (and (eglot-managed-p) (> (buffer-size) 2000))))"
    )
    kernel.emacs.lisp(f'(progn (pop-to-buffer {source}) (goto-char (point-min)) (search-forward "GemmMultiD_Xdl") t)')
    kernel.emacs.ask_until(
        lambda: kernel.emacs.terminal.keys("M-."), '(string-suffix-p ".j2" (or buffer-file-name ""))'
    )


def test_the_listing_is_shown(kernel: Session) -> None:
    kernel.emacs.lisp("(progn (ckwatch-isa) t)")
    isa = f'(get-buffer "{INSTANCES[0]}@gfx942.s")'
    kernel.emacs.wait_for(
        f'(and {isa} (with-current-buffer {isa} (and (string-match-p "v_mfma_f32_32x32x8_f16" (buffer-string)) t)))',
    )


def test_a_lost_daemon_is_replaced(kernel: Session, gemm: Example) -> None:
    killed = gemm.kill_daemon()
    kernel.substitute("MXdlPerWave = 2", "MXdlPerWave = 3")
    error(kernel.emacs, RULE)
    kernel.substitute("MXdlPerWave = 3", "MXdlPerWave = 2")
    kernel.emacs.wait_for(NO_ERRORS)
    kernel.emacs.terminal.wait_for(FIGURES)
    assert gemm.status()["pid"] != killed


def test_nothing_runs_before_somebody_trusts_the_workspace(emacs: str, tmux: str) -> None:
    with Example("gemm", "gemm_f16", INSTANCES[:1], trusted=False) as example:
        session = Session(emacs, tmux, example, example.kernel)
        with session.emacs as opened:
            opened.terminal.wait_for("not trusted")
            opened.terminal.wait_for("Choose an option: Trust$")  # Eglot types the first one
            opened.terminal.keys("Enter")
            opened.wait_for("(not (active-minibuffer-window))")
            session.look_at("[[instance]]")
            opened.terminal.wait_for(r"\[\[instance\]\].*VGPR")


def test_a_kernel_is_timed_and_the_time_is_in_its_line(emacs: str, tmux: str) -> None:
    with Example("cpp", "gemm_f32", settings=BRIEF_TIMING) as example:
        session = Session(emacs, tmux, example, example.kernel)
        with session.emacs as opened:
            opened.wait_for("(eglot-current-server)")
            session.look_at("[[instance]]")
            opened.terminal.wait_for(r"^\s*\[\[instance\]\] +\S")
            opened.lisp("(progn (ckwatch-run) t)")
            opened.terminal.wait_for(r"^\s*\[\[instance\]\].*[µm]s ")


def asked_until(session: Session, form: str, wanted: str) -> None:
    """Ask until there is such an answer: a clangd that reads headers has none for a while."""

    def look(_pause_s: float) -> None:
        assert re.search(wanted, str(session.emacs.lisp(form))), wanted

    ask_until(lambda: None, look)


def test_cpp_is_completed_and_told_and_leads_to_a_header(emacs: str, tmux: str, gemm: Example) -> None:
    session = Session(emacs, tmux, gemm, gemm.root / "templates" / CPP)
    hover = """
        (let ((at (eglot--TextDocumentPositionParams)))
          (plist-get (plist-get (jsonrpc-request (eglot-current-server) :textDocument/hover at) :contents) :value))
    """
    with session.emacs as opened:
        opened.wait_for("(eglot-current-server)")
        session.look_at("minimum_occupancy = {{ 2")
        asked_until(session, f"(ignore-errors {hover})", "Value = `2`")
        session.look_at("CalculateGridSize(argument")
        definition = "(progn (ignore-errors (call-interactively #'xref-find-definitions)) buffer-file-name)"
        asked_until(session, definition, r"_v3_multi_d\.hpp$")
        assert opened.lisp("(list (eglot-managed-p) buffer-read-only)") == [True, True]
        asked_until(session, f"(ignore-errors {hover})", "CalculateGridSize")
        opened.lisp("(progn (xref-go-back) t)")
        session.look_at("struct Sizes")
        opened.lisp(
            '(progn (insert "using Wanted = ck::tensor_operation::device::DeviceGemmMultiD\\n") (backward-char) t)'
        )
        completion = """
            (let ((capf (ignore-errors (eglot-completion-at-point))))
              (and capf (all-completions (buffer-substring (nth 0 capf) (nth 1 capf)) (nth 2 capf))))
        """
        asked_until(session, completion, "DeviceGemmMultiD_Xdl_CShuffle_V3")
