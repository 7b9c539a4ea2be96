"""Helix with the real language server, daemon, compiler and example, by what is on its screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.editors.example import Example
from tools.editors.helix_session import Helix, message_at

pytestmark = [pytest.mark.editors, pytest.mark.toolchain, pytest.mark.timeout(3600)]

INSTANCES = ("v3_128x128x64_intrawave", "v1_128x128x64_intrawave")
EPILOGUE = "ck/epilogue.j2"
CPP = "ck/gemm_kernel.j2"
ERROR = r"128\s+%\s+\(32\s+\*\s+3\)\s+=\s+32"  # wherever the line is wrapped
HEADER = "^.{2}instance"


@pytest.fixture(scope="module")
def gemm() -> Iterator[Example]:
    """Two instances of the f16 GEMM, built, and two templates of their own."""
    with Example("gemm", "gemm_f16", INSTANCES, templates=(EPILOGUE, CPP)) as made:
        made.ckwatch("build")
        yield made


Open = Callable[[Example, Path], Helix]


@pytest.fixture
def open_file(helix: str, tmux: str) -> Iterator[Open]:
    """Opens a file of an example in a Helix of its own."""
    opened: list[Helix] = []

    def start(example: Example, path: Path) -> Helix:
        opened.append(Helix(helix, tmux, path, directory=example.root, env=example.env).__enter__())
        return opened[-1]

    yield start
    for session in opened:
        session.__exit__(None, None, None)


@pytest.fixture
def kernel(open_file: Open, gemm: Example) -> Helix:
    """The kernel file at its first instance, once its figures are on the screen."""
    session = open_file(gemm, gemm.kernel)
    session.select(HEADER)
    session.terminal.wait_for("190 VGPR")
    return session


def is_at_its_place(screen: str) -> bool:
    """Return True if the planted error points at its value: what is wrong, and the formula below."""
    first, _, more = message_at(screen, "MXdlPerWave = 3", "3").partition("\n")
    return "A wave computes MPerXDL * MXdlPerWave rows" in first and "MPerBlock % (MPerXdl * MXdlPerWave) == 0" in more


def test_a_planted_error_is_at_its_place_and_goes_and_figures_come(kernel: Helix) -> None:
    kernel.select("MXdlPerWave = 2")
    kernel.type_over("MXdlPerWave = 3")
    kernel.terminal.wait_until(is_at_its_place, "the error is not at its place")
    kernel.terminal.type("u")
    kernel.terminal.wait_for(ERROR, absent=True)
    kernel.select(HEADER)
    kernel.terminal.wait_for("190 VGPR")


def test_related_information_is_in_the_message(kernel: Helix) -> None:
    kernel.select("MXdlPerWave = 2")
    kernel.type_over("MXdlPerWave = 3")
    kernel.terminal.wait_for(r"gemm_f16\.kernel\.toml:\d+: MPerBlock = 128")


def test_hints_come_with_the_next_change_of_the_text(kernel: Helix) -> None:
    kernel.terminal.type("ge")
    kernel.insert("o", "# a comment")
    kernel.select(HEADER)
    kernel.terminal.wait_for(r"\[\[instance\]\] .*190 VGPR")


def test_a_misspelt_variable_is_shown_in_its_template(open_file: Open, gemm: Example) -> None:
    session = open_file(gemm, gemm.root / "templates" / EPILOGUE)
    session.terminal.type("gg")
    session.insert("O", "// {{ activaton }}")
    session.terminal.wait_for("'activaton' is undefined")
    session.terminal.type("u")
    session.terminal.wait_for("'activaton' is undefined", absent=True)


def test_a_place_that_another_program_asks_for_is_shown(kernel: Helix, gemm: Example) -> None:
    epilogue = gemm.root / "templates" / EPILOGUE
    line, column = gemm.place_of("operator()", epilogue)
    shown = rf"epilogue\.j2 .* {line + 1}:{column + 1}\b"
    kernel.terminal.ask_until(lambda: gemm.show(epilogue, "operator()"), shown)


def test_a_hover_tells_figures(kernel: Helix) -> None:
    asked_until(kernel, " k", "waves per SIMD")


def test_an_action_mends_a_mistake(kernel: Helix) -> None:
    kernel.select("MXdlPerWave = 2")
    kernel.type_over("MXdlPerWave = 3")
    kernel.terminal.wait_for(ERROR)
    kernel.terminal.type("h")
    asked_until(kernel, " a", "Set MXdlPerWave to 2")
    kernel.terminal.keys("Down", "Enter")
    kernel.terminal.wait_for(ERROR, absent=True)


def test_a_command_shows_the_generated_source(kernel: Helix) -> None:
    kernel.command(f'lsp-workspace-command ckwatch.openSource {{"unit": "gemm_f16/{INSTANCES[0]}@gfx942"}}')
    kernel.terminal.wait_for(rf"{INSTANCES[0]}@gfx942")


def test_a_lost_daemon_is_replaced(kernel: Helix, gemm: Example) -> None:
    killed = gemm.kill_daemon()
    kernel.select("MXdlPerWave = 2")
    kernel.type_over("MXdlPerWave = 3")
    kernel.terminal.wait_for(ERROR)
    kernel.terminal.type("u")
    kernel.terminal.wait_for(ERROR, absent=True)
    kernel.select(HEADER)
    kernel.terminal.wait_for("190 VGPR")
    assert gemm.status()["pid"] != killed


def test_nothing_runs_before_somebody_trusts_the_workspace(open_file: Open) -> None:
    with Example("gemm", "gemm_f16", INSTANCES[:1], trusted=False) as example:
        session = open_file(example, example.kernel)
        screen = session.terminal.wait_for("Not now")
        assert "is not trusted" in screen
        session.terminal.keys("Enter")
        session.terminal.wait_for("Not now", absent=True)
        session.select(HEADER)
        session.terminal.wait_for("190 VGPR")


def test_the_listing_is_shown(kernel: Helix) -> None:
    kernel.command(f'lsp-workspace-command ckwatch.openIsa {{"unit": "gemm_f16/{INSTANCES[0]}@gfx942"}}')
    kernel.terminal.wait_for("s_load_dword")


def test_cpp_is_completed_and_told_and_leads_to_a_header(open_file: Open, gemm: Example) -> None:
    session = open_file(gemm, gemm.root / "templates" / CPP)
    terminal = session.terminal
    session.go_to("minimum_occupancy = .. 2")
    asked_until(session, " k", "Value = .?2")
    session.close("Value = .?2")
    session.go_to("CalculateGridSize.argument")
    asked_until(session, "gd", r"static auto CalculateGridSize\(")
    terminal.wait_for(r"v3_multi_d\.hpp")
    asked_until(session, " k", "static-method CalculateGridSize")
    session.close("static-method CalculateGridSize")
    asked_until(session, "", r"gemm_kernel\.j2", key="C-o")
    session.select("^struct Sizes")
    terminal.type("O")
    terminal.wait_for(" INS ")
    terminal.type("using Wanted = ck::tensor_operation::device::DeviceGemmMulti")
    asked_until(session, "", "DeviceGemmMultiD_Xdl_CShuffle_V3", key="C-x")


def asked_until(session: Helix, typed: str, pattern: str, key: str | None = None) -> None:
    """Type until there is an answer: a clangd that reads headers has none for a while."""

    def ask() -> None:
        session.terminal.type(typed)
        if key is not None:
            session.terminal.keys(key)

    session.terminal.ask_until(ask, pattern)
