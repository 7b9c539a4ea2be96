"""A page of Chromium with VS Code in it, for tests: what is seen there, and what a user does.

With CKWATCH_PAGE_SHOTS=FOLDER the page is saved there as failed.png where something was waited for in vain.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

from tools.editors.patience import PATIENCE_S, pauses
from tools.editors.vscode_install import VsCode

EDITOR = ".editor-group-container.active"
"""The group of editors that is active."""

_DRIVER = Path(__file__).with_name("vscode_page.mjs")


class PageError(AssertionError):
    """Raised if an element did not come, or could not be clicked."""


@dataclass(frozen=True, slots=True)
class Page:
    """One window of VS Code. Waiting methods raise `PageError` when their time is over."""

    driver: subprocess.Popen[str]

    def ask(self, request: str, **given: Any) -> Any:
        """One request of `vscode_page.mjs`."""
        assert self.driver.stdin is not None
        assert self.driver.stdout is not None
        wanted = {key: value for key, value in given.items() if value is not None}
        line = {"request": request, "timeout": PATIENCE_S * 1000, **wanted}
        self.driver.stdin.write(json.dumps(line) + "\n")
        self.driver.stdin.flush()
        answer = json.loads(self.driver.stdout.readline() or '{"error": "the browser is gone"}')
        if "error" in answer:
            if (folder := os.environ.get("CKWATCH_PAGE_SHOTS")) and request != "screenshot":
                self.screenshot(Path(folder) / "failed.png")
            raise PageError(f"{request} {given}: {answer['error']}")
        return answer["value"]

    def wait(self, selector: str, text: str | None = None, *, state: str | None = None) -> None:
        """Until an element that has `text` in it is visible, or is in `state` ("hidden", "attached", "detached")."""
        self.ask("wait", selector=selector, text=text, state=state)

    def comes(self, selector: str, text: str, *, within_s: float) -> bool:
        """Return True if such an element becomes visible soon; callers ask again if not."""
        try:
            self.ask("wait", selector=selector, text=text, timeout=within_s * 1000)
        except PageError:
            return False
        return True

    def click(self, selector: str, text: str | None = None, *, count: int = 1) -> None:
        self.ask("click", selector=selector, text=text, count=count)

    def hover(self, selector: str, text: str | None = None) -> None:
        self.ask("hover", selector=selector, text=text)

    def press(self, *keys: str) -> None:
        """Keys or chords, one after the other: `Control+z`."""
        for each in keys:
            self.ask("press", keys=each)

    def type(self, characters: str) -> None:
        self.ask("type", characters=characters)

    def texts(self, selector: str) -> list[str]:
        """Of all such elements, with plain spaces."""
        return [str(text).replace("\u00a0", " ") for text in self.ask("texts", selector=selector)]

    def scroll(self, selector: str, pixels: int) -> None:
        self.ask("scroll", selector=selector, pixels=pixels)

    def screenshot(self, path: Path) -> None:
        self.ask("screenshot", path=str(path))

    def insert(self, text: str) -> None:
        """As one edit: what is typed passes through texts that have mistakes of their own."""
        self.ask("insert", characters=text)

    def wait_for_editor(self, name: str) -> None:
        """Until keys go to the editor of a file. Its tab is active before that, while the editor still has another text."""
        self.wait(f"{EDITOR} .tab.active", name)
        self.wait(f"{EDITOR} .monaco-editor.focused[data-uri*='{quote(name)}']")

    def open_file(self, name: str) -> None:
        """Through Quick Open; the file's editor has the focus afterwards. Its list is as old as the moment at which it
        was opened: a file that has just been written may not be in it, and it is opened again."""
        for pause_s in pauses():
            self.press("Control+p")
            self.wait(".quick-input-widget input")
            self.type(name)
            if self.comes(".quick-input-list .monaco-list-row.focused", Path(name).name, within_s=pause_s):
                break
            self.press("Escape")
            self.wait(".quick-input-widget", state="hidden")
        self.press("Enter")
        self.wait(".quick-input-widget", state="hidden")
        self.wait_for_editor(Path(name).name)

    def run_command(self, title: str) -> None:
        """A command of the palette."""
        self.press("F1")
        self.wait(".quick-input-widget input")
        self.type(title)
        self.wait(".quick-input-list .monaco-list-row.focused", title)
        self.press("Enter")

    def go_to(self, line: int, column: int = 1) -> None:
        """The cursor of the active editor; both count from one."""
        self.press("Control+g")
        self.wait(".quick-input-widget input")
        self.type(f"{line}:{column}")
        self.wait(".quick-input-list .monaco-list-row", str(line))
        self.press("Enter")
        self.wait(".quick-input-widget", state="hidden")
        self.wait(f"{EDITOR} .monaco-editor.focused")


@contextmanager
def opened(vscode: VsCode, url: str) -> Iterator[Page]:
    """A page at `url`, with VS Code's window ready; closed at the end."""
    command: list[str | Path] = [vscode.node, _DRIVER, vscode.playwright, vscode.chromium]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as driver:
        try:
            assert driver.stdout is not None
            assert driver.stdout.readline(), "Chromium did not start"
            page = Page(driver)
            page.ask("goto", url=url)
            page.wait(".monaco-workbench .statusbar")
            yield page
        finally:
            assert driver.stdin is not None
            driver.stdin.close()
            driver.wait(PATIENCE_S)


@contextmanager
def served(vscode: VsCode, home: Path, extension: Path, settings: dict[str, Any], env: dict[str, str]) -> Iterator[str]:
    """code-server with the extension, everything of it in `home`; its address."""
    (home / "data/User").mkdir(parents=True)
    (home / "data/User/settings.json").write_text(json.dumps(settings))
    common: list[str | Path] = [
        *(vscode.node, vscode.code_server, "--config", home / "config.yaml"),
        *("--user-data-dir", home / "data", "--extensions-dir", home / "extensions"),
    ]
    (home / "config.yaml").write_text("auth: none\nbind-addr: 127.0.0.1:0\n")
    done = subprocess.run(
        [*common, "--install-extension", extension], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    options = ("--disable-telemetry", "--disable-update-check", "--disable-getting-started-override")
    with (
        (home / "code-server.log").open("w") as log,
        subprocess.Popen(
            [*common, *options],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as server,
    ):
        assert server.stdout is not None
        address = next(
            (found[1] for line in server.stdout if (found := re.search(r"listening on (http://\S+)", line))), None
        )
        assert address is not None, "code-server did not start"
        reader = Thread(target=shutil.copyfileobj, args=(server.stdout, log))
        reader.start()
        try:
            yield address
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(PATIENCE_S)
            reader.join(PATIENCE_S)
