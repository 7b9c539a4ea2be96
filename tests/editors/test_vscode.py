"""The VS Code extension, seen in a page: code-server, Chromium, the real language server, daemon and toolchain.

With CKWATCH_SCREENSHOTS=docs/images the pictures of the documentation are taken anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from editors.vscode_page import EDITOR, Page, PageError, opened, served
from tools.editors.patience import pauses
from tools.editors.vscode_install import VsCode, install, package_extension

pytestmark = [pytest.mark.editors, pytest.mark.toolchain, pytest.mark.network, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
KERNELS = "gemm_f16.kernel.toml"
TEMPLATE = "gemm_universal.hip.j2"
INCLUDED = "gemm_kernel.j2"
INSTANCE = "v3_128x128x64_intrawave"
OTHER = "v1_128x128x64_intrawave"
CKWATCH = Path(sys.executable).with_name("ckwatch")

BESIDE = ".editor-group-container:not(.active)"
LINKED = f"{BESIDE} .view-overlays [class*='TextEditorDecorationType']"
LOCKED = f"{EDITOR} .tab.active [class*='monaco-decoration-iconBadge']"
STATUS = "[id$='ckwatch.status']"

SETTINGS = {
    "editor.accessibilitySupport": "off",
    "editor.minimap.enabled": False,
    "files.autoSave": "off",  # on by default where VS Code runs in a browser
    "telemetry.telemetryLevel": "off",
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": False,
}

Shoot = Callable[[str], None]


def ckwatch(*arguments: str | Path, env: dict[str, str]) -> str:
    return subprocess.run([CKWATCH, *arguments], env=env, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def vscode() -> VsCode:
    return install()


@pytest.fixture(scope="module")
def extension(vscode: VsCode) -> Path:
    return package_extension(ROOT / "editors/vscode")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """That of a user who has a daemon; sockets and state are the test's own."""
    runtime = tmp_path_factory.mktemp("run")
    runtime.chmod(0o700)
    given = {name: value for name, value in os.environ.items() if name != "CKWATCH_NO_DAEMON"}
    return {**given, "XDG_RUNTIME_DIR": str(runtime)}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Path]:
    """The GEMM example with its template beside it, built."""
    folder = tmp_path_factory.mktemp("editor") / "gemm"
    folder.mkdir()
    for name in ("ckwatch.toml", KERNELS):
        shutil.copy(ROOT / "examples/gemm" / name, folder)
    shutil.copytree(ROOT / "templates/ckwatch_templates/ck", folder / "templates/ck")
    for path in (ROOT / "tests/data/triton").glob("matmul_kernel.*"):
        shutil.copy(path, folder)
    ckwatch("trust", folder, env=environment)
    try:
        ckwatch("build", "gemm_f16/v[13]_128x128x64_intrawave", "-C", folder, env=environment)
        yield folder
    finally:
        ckwatch("stop", "-C", folder, env=environment)


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that tells of each process that the extension has started: its working folder and PYTHONPATH."""
    return tmp_path_factory.mktemp("started") / "processes"


@pytest.fixture(scope="module")
def address(
    vscode: VsCode,
    extension: Path,
    workspace: Path,
    started: Path,
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """Of VS Code with the workspace."""
    home = tmp_path_factory.mktemp("code-server")
    command = started.with_name("ckwatch")
    command.write_text(f"""#!/bin/sh\necho "$PWD $PYTHONPATH" >> {started}\nexec {CKWATCH} "$@"\n""")
    command.chmod(0o755)
    settings: dict[str, Any] = {
        **SETTINGS,
        "ckwatch.command": str(command),
        "security.workspace.trust.enabled": False,
    }
    with served(vscode, home, extension, settings, {**environment, "PYTHONPATH": ":lib:/opt/lib"}) as address:
        yield f"{address}?folder={workspace}"


@pytest.fixture(scope="module")
def page(vscode: VsCode, address: str) -> Iterator[Page]:
    with opened(vscode, address) as page:
        page.wait(STATUS, "12 units")
        yield page


@pytest.fixture
def shoot(page: Page, tmp_path: Path) -> Shoot:
    """Takes a picture for the documentation, if there are to be any."""
    folder = os.environ.get("CKWATCH_SCREENSHOTS")
    return lambda name: page.screenshot((ROOT / folder if folder else tmp_path) / f"vscode-{name}.png")


def isa_line_from(template: str, workspace: Path, env: dict[str, str]) -> int:
    """The first line of the ISA with an instruction that came from `template`, counted from one."""
    told = json.loads(ckwatch("inspect", f"gemm_f16/{INSTANCE}", "--isa", "--json", "-C", workspace, env=env))
    return next(
        int(line["line"]) + 1
        for line in told["lines"]
        if line["mnemonic"] and line["span"] is not None and line["span"]["path"].endswith(f"/{template}")
    )


def line_of(path: Path, words: str) -> int:
    """Counted from one."""
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if words in line)


def test_figures_lenses_and_hover_at_an_instance(page: Page, workspace: Path, shoot: Shoot) -> None:
    header = line_of(workspace / KERNELS, "[[instance]]")
    page.open_file(KERNELS)
    page.go_to(header, 4)
    page.wait(f"{EDITOR} .view-line", "190 VGPR")
    page.wait(f"{EDITOR} .view-line", "MFMA 92 %")
    page.wait(f"{STATUS} .codicon-check")
    assert not [line for line in page.texts(f"{EDITOR} .view-line") if line.endswith("…")], "hints are cut off"
    for title in ("verif", "source", "ISA"):
        page.wait(f"{EDITOR} .codelens-decoration a", title)
    page.press("Control+k", "Control+i")
    page.wait(".monaco-hover", "waves per SIMD")
    page.wait(".monaco-hover", INSTANCE)
    shoot("figures")
    page.press("Escape")


def test_no_process_is_started_in_the_workspace(page: Page, workspace: Path, started: Path) -> None:
    processes = [line.rpartition(" ") for line in started.read_text().splitlines()]
    assert processes
    for folder, _, path in processes:
        assert not Path(folder).is_relative_to(workspace)
        assert path == "/opt/lib"


def test_a_mistake_shows_while_it_is_typed_and_goes(page: Page, workspace: Path, shoot: Shoot) -> None:
    line = line_of(workspace / KERNELS, "MPerBlock = 128")
    page.open_file(KERNELS)
    page.wait(f"{EDITOR} .squiggly-error", state="hidden")
    page.go_to(line, len("MPerBlock = ") + 1)
    page.press("Shift+End")
    page.insert("96")
    page.wait(f"{EDITOR} .squiggly-error")
    page.press("Alt+F8")
    page.wait(".marker-widget", "96 % (32 * 2)")
    shoot("error")
    page.press("Escape")
    page.press("Control+z")
    page.wait(f"{EDITOR} .squiggly-error", state="hidden")
    page.wait(f"{EDITOR} .tab.active:not(.dirty)")


def test_two_windows_show_one_workspace(vscode: VsCode, address: str, page: Page, workspace: Path) -> None:
    page.open_file(KERNELS)
    page.go_to(line_of(workspace / KERNELS, "MPerBlock = 128"), len("MPerBlock = ") + 1)
    with opened(vscode, address) as other:
        other.wait(STATUS, "12 units")
        other.open_file(KERNELS)
        other.go_to(line_of(workspace / KERNELS, "[[instance]]"))
        other.wait(f"{EDITOR} .view-line", "190 VGPR")
        page.press("Shift+End")
        page.insert("96")
        page.wait(f"{EDITOR} .squiggly-error")
        other.wait(f"{EDITOR} .view-line", "190 VGPR")  # what a window has not saved is its own
        other.wait(f"{EDITOR} .squiggly-error", state="hidden")
        page.press("Control+z")
        page.wait(f"{EDITOR} .squiggly-error", state="hidden")
    page.wait(f"{EDITOR} .tab.active:not(.dirty)")
    page.wait(STATUS, "12 units")


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        pytest.param("{{ nowhere }} ", "nowhere", id="jinja"),
        pytest.param("undeclared_name; ", "use of undeclared identifier", id="compiler"),
    ],
)
def test_a_mistake_in_a_template_that_is_not_saved(page: Page, workspace: Path, mistake: str, told: str) -> None:
    template = workspace / "templates/ck" / TEMPLATE
    text = template.read_text()
    page.open_file(TEMPLATE)
    page.go_to(line_of(template, "using namespace {{ host_namespace }}"))
    page.wait(f"{EDITOR} .view-line", "190 VGPR")
    page.press("Home")
    page.insert(mistake)
    page.wait(f"{EDITOR} .squiggly-error")
    page.press("Alt+F8")
    page.wait(".marker-widget", told)
    assert template.read_text() == text
    page.press("Escape")
    page.press(*["Control+z"] * len(mistake))  # more than there are edits, which does no harm
    page.wait(f"{EDITOR} .squiggly-error", state="hidden")
    page.wait(f"{EDITOR} .tab.active:not(.dirty)")


def column_of(path: Path, line: int, words: str) -> int:
    """Of the first character of `words`, counted from one."""
    return path.read_text().splitlines()[line - 1].index(words) + 1


def look_at(page: Page, path: Path, line: str, words: str) -> None:
    """The cursor in a file that is open, in its first line that contains `line`, at `words`."""
    number = line_of(path, line)
    page.go_to(number, column_of(path, number, words))


def undo_all(page: Page) -> None:
    """Until the text is that on disk."""
    page.run_command("File: Revert File")
    page.wait(f"{EDITOR} .tab.active:not(.dirty)")


def again_until(ask: Callable[[float], bool], told: str) -> None:
    """Ask until there is an answer, in ever more seconds: a clangd that reads headers, or another text of a template, has
    none for a while."""
    if not any(map(ask, pauses())):
        raise PageError(told)


def hover_until(page: Page, pattern: str) -> None:
    """Until a hover at the cursor fits."""

    def fits(pause_s: float) -> bool:
        page.press("Escape", "Control+k", "Control+i")
        shown = page.comes(".monaco-hover", "in gemm_f16/", within_s=pause_s)
        return shown and bool(re.search(pattern, " ".join(page.texts(".monaco-hover")), re.DOTALL))

    again_until(fits, f"no hover fits {pattern!r}")


def follow_to(page: Page, name: str) -> None:
    """Go to the definition, which lies in a file of this name."""

    def followed(pause_s: float) -> bool:
        page.press("F12")
        return page.comes(f"{EDITOR} .tab.active", name, within_s=pause_s)

    again_until(followed, f"no definition leads to {name}")
    page.wait_for_editor(name)


def rename_until(page: Page, name: str, selector: str, text: str) -> None:
    """Rename what is at the cursor until there is such an element."""

    def renamed(pause_s: float) -> bool:
        page.press("Escape", "F2")
        if not page.comes(".rename-box input:focus", "", within_s=pause_s):
            return False
        page.press("Control+a")
        page.type(name)
        page.press("Enter")
        return page.comes(selector, text, within_s=pause_s)

    again_until(renamed, f"{text!r} did not come")


def test_a_hover_tells_the_value_in_the_chosen_instance_and_in_others(
    page: Page, workspace: Path, shoot: Shoot
) -> None:
    page.open_file(INCLUDED)
    for chosen, value, other in ((OTHER, 1, 2), (INSTANCE, 2, 1)):
        page.run_command("ckwatch: Choose the Active Instance")
        page.wait(".quick-input-list .monaco-list-row", chosen)
        page.type(chosen)
        page.wait(".quick-input-list .monaco-list-row.focused", chosen)
        page.press("Enter")
        page.wait(".quick-input-widget", state="hidden")
        look_at(page, workspace / "templates/ck" / INCLUDED, "minimum_occupancy = {{ 2", "minimum_occupancy")
        hover_until(page, rf"Value = {value}(?!\d).*other instances.*Value = {other}(?!\d)")
    shoot("constexpr")
    page.press("Escape")


def test_a_ck_name_is_completed_in_a_template(page: Page, workspace: Path, shoot: Shoot) -> None:
    page.open_file(INCLUDED)
    page.go_to(line_of(workspace / "templates/ck" / INCLUDED, "struct Sizes {"))
    page.press("Control+Shift+Enter")
    page.insert("using Wanted = ck::tensor_operation::device::DeviceGemmMulti")

    def suggested(pause_s: float) -> bool:
        page.press("Escape", "Control+Space")
        focused = ".suggest-widget .monaco-list-row.focused"
        return page.comes(focused, "DeviceGemmMultiD_Xdl_CShuffle_V3", within_s=pause_s)

    again_until(suggested, "nothing is suggested")
    shoot("completion")
    page.press("Enter")
    page.wait(f"{EDITOR} .view-line", "ck::tensor_operation::device::DeviceGemmMultiD_Xdl_CShuffle_V3<")
    page.press("Escape", "Escape")
    undo_all(page)


def test_definitions_lead_through_headers_of_ck_and_back(page: Page, workspace: Path, shoot: Shoot) -> None:
    page.open_file(INCLUDED)
    look_at(page, workspace / "templates/ck" / INCLUDED, "Gridwise::CalculateGridSize", "CalculateGridSize")
    follow_to(page, "gridwise_gemm_xdl_cshuffle_v3_multi_d.hpp")
    page.wait(LOCKED)
    page.type("x")
    page.wait(".monaco-editor-overlaymessage", "read-only")
    page.wait(f"{EDITOR} .tab.active:not(.dirty)")
    hover_until(page, "static auto CalculateGridSize")
    shoot("header")
    page.press("Escape", "Control+ArrowRight", "ArrowRight")  # to the type of the first parameter
    follow_to(page, "ck.hpp")
    page.wait(LOCKED)
    for name in ("gridwise_gemm_xdl_cshuffle_v3_multi_d.hpp", INCLUDED):
        page.press("Control+Alt+Minus")
        page.wait_for_editor(name)


def test_the_calls_parameters_and_the_outline_are_shown(page: Page, workspace: Path) -> None:
    page.open_file(INCLUDED)
    look_at(page, workspace / "templates/ck" / INCLUDED, "CalculateGridSize(argument.M", "argument.N")

    def parameters(pause_s: float) -> bool:
        page.press("Escape", "Control+Shift+Space")
        wanted = "CalculateGridSize(index_t M, index_t N, index_t KBatch)"
        return page.comes(".parameter-hints-widget", wanted, within_s=pause_s)

    def outline(pause_s: float) -> bool:
        page.press("Escape", "Control+Shift+o")
        return page.comes(".quick-input-list .monaco-list-row", "minimum_occupancy", within_s=pause_s)

    again_until(parameters, "no parameters are shown")
    again_until(outline, "the outline has no C++")
    page.press("Escape")


def test_a_name_of_cpp_is_renamed(page: Page, workspace: Path) -> None:
    template = workspace / "templates/ck" / INCLUDED
    page.open_file(INCLUDED)
    look_at(page, template, "constexpr auto kernel =", "kernel")
    rename_until(page, "chosen", f"{EDITOR} .view-line", "hipLaunchKernelGGL(chosen")
    undo_all(page)


def test_the_isa_stands_beside_the_template_and_is_linked_with_it(
    page: Page, workspace: Path, environment: dict[str, str], shoot: Shoot
) -> None:
    page.open_file(TEMPLATE)
    page.go_to(line_of(workspace / "templates/ck" / TEMPLATE, "def_kernel("))
    page.click(f"{EDITOR} .codelens-decoration a", "ISA")
    page.wait(f"{BESIDE} .tab", f"{INSTANCE}@gfx942.s")
    page.wait(f"{BESIDE} .view-line", "s_load_dword")
    # an included template is linked, too: where a call in it became instructions. Where nobody has looked at this ISA
    # before, its lines take a compile, and the cursor stands there long before they come
    page.open_file(INCLUDED)
    page.go_to(line_of(workspace / "templates/ck" / INCLUDED, "SplitKBatchOffset offset"))
    page.wait(LINKED)
    shoot("isa")
    page.go_to(1)
    page.wait(LINKED, state="hidden")
    page.click(f"{BESIDE} .tab", f"{INSTANCE}@gfx942.s")
    page.wait_for_editor(f"{INSTANCE}@gfx942.s")
    page.go_to(isa_line_from(INCLUDED, workspace, environment))
    page.wait(LINKED)
    page.press("Home", "Control+k", "Control+i")
    page.wait(".monaco-hover", INCLUDED)
    page.press("Escape")
    page.press("Control+w")


def test_a_code_object_is_its_figures(page: Page) -> None:
    page.open_file("matmul_kernel.hsaco")
    page.wait(f"{EDITOR} .view-line", "matmul_kernel.hsaco, gfx942 (Triton: 4 warps, 4 KiB LDS)")
    page.wait(f"{EDITOR} .tab.active", "matmul_kernel.hsaco.s")
    page.press("Control+w")


def test_settings_count_at_once(page: Page, workspace: Path) -> None:
    settings = workspace / ".vscode/settings.json"
    settings.parent.mkdir()
    page.open_file(KERNELS)
    page.go_to(line_of(workspace / KERNELS, "[[instance]]"))
    page.wait(f"{EDITOR} .codelens-decoration a", "ISA")
    settings.write_text('{"ckwatch.lenses": false, "ckwatch.hints": false}')
    page.wait(f"{EDITOR} .codelens-decoration a", "ISA", state="hidden")
    page.wait(f"{EDITOR} .view-line", "VGPR", state="hidden")
    settings.unlink()
    page.wait(f"{EDITOR} .codelens-decoration a", "ISA")
    page.wait(f"{EDITOR} .view-line", "VGPR")


def test_another_instance_is_chosen_from_a_list(page: Page, workspace: Path) -> None:
    page.open_file(TEMPLATE)
    page.go_to(line_of(workspace / "templates/ck" / TEMPLATE, "def_kernel("))
    for chosen, vgprs in ((OTHER, "192 VGPR"), (INSTANCE, "190 VGPR")):
        page.click(f"{EDITOR} .codelens-decoration a", "choose instance")
        page.wait(".quick-input-list .monaco-list-row", chosen)
        page.type(chosen)
        page.wait(".quick-input-list .monaco-list-row.focused", chosen)
        page.press("Enter")
        page.wait(f"{EDITOR} .view-line", vgprs)


def test_the_tree_opens_the_generated_source(page: Page, shoot: Shoot) -> None:
    page.click(".activitybar .action-item a[aria-label^='ckwatch']")
    row = ".pane-body .monaco-list-row"
    page.wait(row, INSTANCE)
    page.wait(row, "12 units")
    page.click(row, INSTANCE)
    page.press("Control+0")
    for _ in range(4):
        page.run_command("Increase Current View Size")
    page.hover(row, INSTANCE)
    shoot("kernels")
    page.click(f"{row}:has-text('{INSTANCE}') a[aria-label='Open Generated Source']")
    page.wait(".tab", f"{INSTANCE}@gfx942.hip")
    page.wait(f"{BESIDE} .view-line", "#include <hip/hip_runtime.h>")
    page.click(".tab", f"{INSTANCE}@gfx942.hip")
    page.wait_for_editor(f"{INSTANCE}@gfx942.hip")
    page.press("Control+w")


def test_a_unit_is_run_as_a_test(page: Page) -> None:
    page.click(".activitybar .action-item a[aria-label^='Testing']")
    row = ".test-explorer .monaco-list-row"
    page.wait(row, "gemm_f16")
    page.click(row, "gemm_f16")
    page.press("ArrowRight")
    page.wait(row, INSTANCE)
    page.hover(row, INSTANCE)
    page.click(f"{row}:has-text('{INSTANCE}') a[aria-label^='Run Test']")
    page.wait(f"{row}:has-text('{INSTANCE}') .codicon-testing-passed-icon")


def test_the_status_item_opens_the_daemons_log(page: Page) -> None:
    page.click(STATUS)
    page.wait(".tab.active", ".log")
    page.wait(f"{EDITOR} .view-line", "ckwatch.server.daemon")
    page.press("Control+w")


def test_a_profile_stands_beside_the_lines_of_a_template(page: Page, workspace: Path, shoot: Shoot) -> None:
    example, template = ROOT / "examples/transpose", "transpose.hip.j2"
    shutil.copy(example / "templates" / template, workspace / "templates")
    shutil.copy(example / "reference.py", workspace)
    kernels = (example / "transpose_f16.kernel.toml").read_text().replace("Pad = 2", "Pad = 0")
    (workspace / "transpose_f16.kernel.toml").write_text(kernels)
    page.open_file(template)
    page.go_to(line_of(workspace / "templates" / template, "= lds["))
    page.wait(f"{EDITOR} .view-line", "16-way LDS conflict")
    page.wait(f"{EDITOR} .cgmr[class*='TextEditorDecorationType']")
    page.wait(f"{EDITOR} .codelens-decoration a", "profile: ")
    page.press("Control+k", "Control+i")
    page.wait(".monaco-hover", "lanes 0…31 read 2 bytes each at byte 0, 64, 128")
    shoot("profile")
    page.press("Escape")


def test_without_trust_nothing_is_run_and_a_missing_command_is_told(
    vscode: VsCode, extension: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "gemm"
    folder.mkdir()
    shutil.copy(ROOT / "examples/gemm" / KERNELS, folder)
    (folder / "ckwatch.toml").touch()
    # would leave a file behind
    trap = tmp_path / "ckwatch"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    trap.chmod(0o755)
    settings = {**SETTINGS, "ckwatch.command": str(trap), "security.workspace.trust.enabled": True}
    with (
        served(vscode, tmp_path / "code-server", extension, settings, environment) as address,
        opened(vscode, f"{address}?folder={folder}") as page,
    ):
        page.click(".monaco-dialog-box .monaco-button", "No, I don't trust")
        page.open_file(KERNELS)
        page.wait(f"{EDITOR} .mtk1, {EDITOR} [class^='mtk']", "template")
        page.wait(f"{STATUS} .codicon-shield")
        assert not (tmp_path / "started").exists()
        page.click(".activitybar .action-item a[aria-label^='ckwatch']")
        page.click(".pane-body .monaco-button", "Manage Trust")
        page.click(".workspace-trust-editor .monaco-button", "Trust")
        page.wait(".notification-list-item", "is no ckwatch command")
        assert (tmp_path / "started").exists()
        page.run_command("ckwatch: Install the ckwatch Command")
        page.wait(".quick-input-list .monaco-list-row", "python3 -m pip install --user")
        page.press("Escape")
