"""ckwatch.el and Eglot against a scripted server: what Emacs itself has to do."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.editors.emacs_session import Emacs
from tools.editors.example import ROOT
from tools.editors.stage import Stage

pytestmark = pytest.mark.editors

ONE_ERROR = "(= (length (flymake-diagnostics)) 1)"


@pytest.fixture
def shown(emacs: str, tmux: str, stage: Stage) -> Iterator[Emacs]:
    """Emacs with the stage's template open and its error shown."""
    with Emacs(emacs, tmux, stage.template, directory=stage.folder, env=stage.env) as session:
        session.wait_for(f"(and (eglot-current-server) {ONE_ERROR})")
        yield session


def test_files_of_a_workspace_have_their_modes(shown: Emacs, stage: Stage) -> None:
    foreign = stage.folder / "page.j2"
    foreign.write_text("x\n")
    rows = [
        (stage.macros, "ckwatch-template-mode", True),
        (stage.kernel, "ckwatch-kernel-mode", True),
        (stage.root / "ckwatch.toml", "ckwatch-kernel-mode", True),
        (foreign, "fundamental-mode", False),
    ]
    for path, mode, managed in rows:
        shown.terminal.keys("C-x", "C-f", "C-a", "C-k")
        shown.terminal.type(str(path))
        shown.terminal.keys("Enter")
        shown.wait_for(f'(equal buffer-file-name "{path}")')
        if managed:
            shown.wait_for("(eglot-managed-p)")
        assert shown.lisp("(list major-mode (eglot-managed-p))") == [mode, managed or None], path
    assert shown.lisp("(hash-table-count eglot--servers-by-project)") == 1
    opened = [one["textDocument"] for one in stage.received("textDocument/didOpen", 4)]
    assert [(Path(one["uri"]).name, one["languageId"]) for one in opened] == [
        ("kernel.hip.j2", "ckwatch-template"),
        ("macros.j2", "ckwatch-template"),
        ("gemm.kernel.toml", "ckwatch-kernel"),
        ("ckwatch.toml", "ckwatch-kernel"),
    ]


def test_the_workspace_is_the_servers_root(shown: Emacs, stage: Stage) -> None:
    assert shown.lisp("(project-root (eglot--project (eglot-current-server)))") == f"{stage.root}/"
    assert shown.lisp("(car (project-current))") is None  # for everything else the project is what it was


def test_errors_and_hints_are_on_the_screen(shown: Emacs) -> None:
    screen = shown.terminal.wait_for("first 41.57 µs line")
    wrong = next(line for line in screen.splitlines() if "second µ WRONG line" in line)
    assert "128 % (32 * 3) is not 0" in wrong
    place = shown.lisp("(flymake-diagnostic-beg (car (flymake-diagnostics)))")
    assert place == shown.lisp('(save-excursion (goto-char (point-min)) (search-forward "WRONG") (match-beginning 0))')


def test_mending_is_sent_while_emacs_is_idle(shown: Emacs) -> None:
    shown.lisp('(progn (goto-char (point-min)) (search-forward "WRONG") (replace-match "right") t)')
    shown.wait_for("(null (flymake-diagnostics))")
    shown.terminal.wait_for(r"128 % \(32", absent=True)


def test_a_hover_is_in_the_echo_area(shown: Emacs) -> None:
    shown.terminal.keys("C-n")
    shown.terminal.keys("C-p")
    shown.terminal.wait_for("190 VGPR")


def test_commands_are_the_servers(shown: Emacs, stage: Stage) -> None:
    here = {"uri": stage.template.as_uri()}
    rows = [
        ('(ckwatch-run "gemm/v3")', ("run", {**here, "unit": "gemm/v3"})),
        ("(ckwatch-build)", ("build", here)),
        ("(ckwatch-cancel)", ("cancel", here)),
        ('(ckwatch-set-baseline "before")', ("setBaseline", {**here, "name": "before"})),
        ('(ckwatch-set-baseline "")', ("setBaseline", here)),
        ("(ckwatch-isa)", ("openIsa", here)),
        ("(ckwatch-restart)", ("restartDaemon", here)),
        ("(ckwatch-trust)", ("trust", here)),
        ("(ckwatch-log)", ("showLog", {})),
    ]
    for form, _ in rows:
        shown.lisp(f"(progn {form} t)")
    assert stage.commands() == [expected for _, expected in rows]
    assert shown.lisp('(with-current-buffer "*ckwatch log*" (buffer-string))') == "text of showLog"


def test_commands_may_be_called_by_name(shown: Emacs, stage: Stage) -> None:
    shown.terminal.keys("C-u", "M-x")
    shown.terminal.type("ckwatch-run")
    shown.terminal.keys("Enter")
    shown.terminal.wait_for("^Unit:")
    shown.terminal.type("gemm")
    shown.terminal.keys("Tab", "Enter")
    shown.terminal.wait_for("first 42.57 µs line")
    assert stage.commands()[-1] == ("run", {"uri": stage.template.as_uri(), "unit": "gemm/v3@gfx942"})


def test_units_lead_to_their_instances(shown: Emacs) -> None:
    shown.lisp("(progn (ckwatch-units) t)")
    shown.terminal.wait_for("gemm/v3@gfx942 .*done .*41.57 µs")
    shown.lisp("(progn (goto-char (point-min)) (ckwatch-visit-unit) t)")
    assert shown.lisp("(list (file-name-nondirectory buffer-file-name) (line-number-at-pos))") == ["kernel.hip.j2", 3]


def test_hints_and_the_mode_line_follow_a_run(shown: Emacs) -> None:
    shown.terminal.wait_for(r"\(CK-Template … 2 units")
    shown.terminal.wait_for("first 41.57 µs line")
    shown.lisp("(progn (ckwatch-run) t)")
    shown.terminal.wait_for(r"\(CK-Template run 1")
    shown.terminal.wait_for("first 42.57 µs line")


def test_generated_source_is_a_live_buffer(shown: Emacs) -> None:
    shown.lisp("(progn (ckwatch-source) t)")
    shown.terminal.wait_for("// run 0")
    source = '(get-buffer "v3@gfx942.hip")'
    state = f"(with-current-buffer {source} (list major-mode buffer-read-only (buffer-modified-p)))"
    assert shown.lisp(state) == ["ckwatch-source-mode", True, None]
    shown.wait_for(f"(with-current-buffer {source} (and (eglot-managed-p) {ONE_ERROR}))")
    shown.lisp("(progn (ckwatch-run) t)")
    shown.terminal.wait_for("// run 1")
    assert shown.lisp(f"(with-current-buffer {source} (buffer-string))") == "// run 1\nint main() {} // WRONG\n"


def test_templates_are_highlighted(shown: Emacs) -> None:
    faces = shown.lisp(
        """
        (progn (font-lock-ensure)
               (mapcar (lambda (text) (goto-char (point-min)) (search-forward text)
                         (get-text-property (match-beginning 0) 'face))
                       '("{{" "isn't" "C++" "int" "end")))
        """
    )
    assert faces == [
        "font-lock-preprocessor-face",
        "font-lock-comment-face",
        "font-lock-comment-face",
        "font-lock-keyword-face",
        None,
    ]


def test_it_compiles_without_warnings(emacs: str, stage: Stage) -> None:
    to = f'(lambda (file) (concat "{stage.folder}/" (file-name-nondirectory file) "c"))'
    setup = f"(setq byte-compile-error-on-warn t byte-compile-dest-file-function {to})"
    done = subprocess.run(
        [
            emacs,
            "-Q",
            "--batch",
            "-L",
            ".",
            "--eval",
            setup,
            "-f",
            "batch-byte-compile",
            "ckwatch.el",
            "ckwatch-eglot.el",
        ],
        cwd=ROOT / "editors/emacs",
        env=stage.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
