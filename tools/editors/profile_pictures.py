"""Make docs/images/neovim-profile.svg and web-profile.png: a profile in Neovim's terminal and on the page.

    PYTHONPATH=tests python -m tools.editors.profile_pictures [neovim] [web]

The real editor, daemon, compiler and browser show the transposition example with a row of LDS that is not padded. The
picture of the terminal is made of its cells.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Mapping

from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

from helpers.web_page import program_path, web
from tools.editors.example import ROOT, Example
from tools.editors.places import installed
from tools.editors.terminal import Terminal

IMAGES = ROOT / "docs/images"
SOURCE = ROOT / "examples/transpose"
TEMPLATE = "templates/transpose.hip.j2"
UNIT = "transpose_f16/tile32@gfx942"
COLUMNS, ROWS = 156, 40
LIMIT_S = 300.0


def neovim(example: Example) -> None:
    """Hints, heat and the lens of the kernel."""
    programs = [installed(name) for name in ("neovim", "tmux")]
    if None in programs:
        sys.exit("missing: python -m tools.editors.install neovim tmux")
    editor, tmux = (one.program for one in programs if one is not None)
    settings = f"set runtimepath^={ROOT / 'editors/neovim'} termguicolors noswapfile noruler laststatus=0"
    command = [editor, "--clean", "--cmd", settings, TEMPLATE]
    with Terminal(tmux, command, directory=example.root, env=example.env, columns=COLUMNS, rows=ROWS) as terminal:
        terminal.wait_for("16-way LDS conflict +■", timeout_s=LIMIT_S)
        terminal.type(":14")
        terminal.keys("Enter", "z", "t", "C-l")
        terminal.wait_for(r"\A.*constexpr int tile(.*\n)+.*hipGetLastError")
        screen = terminal.styled()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(screen), no_wrap=True, crop=True)
    console.save_svg(str(IMAGES / "neovim-profile.svg"), title="nvim transpose.hip.j2")


def page(example: Example) -> None:
    """Source and instructions side by side."""
    os.environ |= dict(example.env)
    os.environ.pop("CKWATCH_NO_DAEMON", None)
    example.ckwatch("build", UNIT)
    with web(example.root) as (_, address), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program_path(), args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1360, "height": 900})
        shown.set_default_timeout(1000 * LIMIT_S)
        shown.goto(address)
        shown.goto(f"{address.partition('/?')[0]}/profile?unit={UNIT}")
        shown.get_by_role("button", name="Profile the unit").click()
        shown.get_by_text("16-way LDS conflict").first.wait_for()
        shown.screenshot(path=IMAGES / "web-profile.png", animations="disabled")
        browser.close()


PICTURES: Mapping[str, Callable[[Example], None]] = {"neovim": neovim, "web": page}


def main() -> None:
    """Make what is named, or both."""
    with Example("transpose", "transpose_f16", ("tile32",)) as example:
        (example.root / TEMPLATE).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / TEMPLATE, example.root / TEMPLATE)
        shutil.copy(SOURCE / "reference.py", example.root)
        (example.root / "ckwatch.toml").write_text('[workspace]\narchs = ["gfx942"]\n')
        example.kernel.write_text(example.kernel.read_text().replace("Pad = 2", "Pad = 0"))
        for name in sys.argv[1:] or PICTURES:
            PICTURES[name](example)


if __name__ == "__main__":
    main()
