"""The page of `ckwatch web` with 5,000 units and 100,000 timings in Chromium: how soon it is usable, how long it
pauses, and what it takes of memory.

The alternative for start and memory is a page of NiceGUI that shows one line; for scrolling and filtering a plain HTML
table of the same cells, whose rows are hidden and shown. The daemon runs already, and nothing is built. The timings are
made up for this: no device took them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.choosing import alone, asked_runs
from benchmarks.idle import memory_mb
from benchmarks.quick_daemon import apart
from benchmarks.reporting import DAEMON_CODE, Row, row
from ckwatch import connect_sync
from ckwatch.bench.history.runs import History
from ckwatch.bench.history.timings import TimingRecord
from ckwatch.bench.report import (
    BenchmarkReport,
    ContestantResult,
    DeviceReading,
    NumericsVerification,
    Samples,
    StopReason,
)
from ckwatch.engine.bootstrap import database_path
from ckwatch.model.gpu_specs import DeviceFacts
from ckwatch.model.roofline import CacheState
from ckwatch.workspace.loading import load_workspace
from ckwatch.workspace.trust import trust
from tools.editors.places import editors_folder
from tools.editors.vscode_install import program as installed_program

MEASURED_CODE = (*DAEMON_CODE, "web/ckwatch_web")

ROWS, COLUMNS, SHAPES = 50, 100, 10
UNITS = ROWS * COLUMNS
TIMINGS = UNITS * SHAPES * 2
PATIENCE_MS = 120_000.0
CKWATCH = Path(sys.executable).with_name("ckwatch")

_TEMPLATE = "// {{ MPerBlock }} × {{ NPerBlock }}\n"
_KERNEL = """\
name = "many"
template = "many.cpp.j2"

[operation]
kind = "gemm"
a = {{ dtype = "f32", layout = "row" }}
b = {{ dtype = "f32", layout = "row" }}
c = {{ dtype = "f32", layout = "row" }}

[[sweep]]
name = "tile"
[sweep.parameters]
MPerBlock = {rows}
NPerBlock = {columns}
"""
_SHAPE = """
[[shape]]
name = "{size}"
M = {size}
N = {size}
K = {size}
"""

_BARE = """
import sys
from nicegui import ui
@ui.page("/")
def index():
    ui.label("usable")
ui.run(host="127.0.0.1", port=int(sys.argv[1]), show=False, reload=False, show_welcome_message=False)
"""

_WATCH_FRAMES = """() => {
  window.gaps = []; let last = performance.now();
  const tick = now => { window.gaps.push(now - last); last = now; requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
}"""
_FILTER_PLAIN = """text => {
  for (const row of document.querySelectorAll("tbody tr")) row.hidden = !row.cells[0].textContent.includes(text);
}"""


def make_workspace(root: Path, rows: int = ROWS, columns: int = COLUMNS) -> None:
    """So many instances of one kernel on ten shapes, 5,000 of them."""
    (root / "templates").mkdir(parents=True)
    (root / "ckwatch.toml").write_text('[verify]\nautomatic = "off"\n[limits]\ninstances = 5000\n')
    (root / "templates/many.cpp.j2").write_text(_TEMPLATE)
    shapes = "".join(_SHAPE.format(size=512 * (one + 1)) for one in range(SHAPES))
    values = {name: [8 * (one + 1) for one in range(many)] for name, many in (("rows", rows), ("columns", columns))}
    (root / "many.kernel.toml").write_text(_KERNEL.format(**values) + shapes)


def make_history(root: Path, units: list[str]) -> None:
    """20 timings of each unit, which no device took."""
    device = DeviceFacts(name="hip:0", description="made up for a benchmark", arch="gfx942", clock_mhz=1000.0)
    verified = NumericsVerification(
        seeds=(1,), compared=1, worst_error=0.0, relative_tolerance=1.0, absolute_tolerance=1.0, reference="none"
    )
    (many,) = load_workspace(root).kernels
    shapes = {shape.name: shape for shape in many.shapes}
    history = History(database_path(root))
    history.open()
    timings = history.timings
    for at, unit in enumerate(units):
        kernel, _, rest = unit.partition("/")
        instance, _, arch = rest.partition("@")
        records = []
        for number in range(SHAPES):
            size = 512 * (number + 1)
            times = tuple(100.0 * (number + 1) + (at * 7 + number * 13) % 101 + one for one in range(5))
            samples = tuple(
                Samples(cache=cache, times_us=times, clocks_mhz=(), stop=StopReason.PRECISE)
                for cache in (CacheState.COLD, CacheState.HOT)
            )
            report = BenchmarkReport(
                device=device,
                measured=(ContestantResult(contestant=unit, samples=samples, verification=verified),),
                readings=(DeviceReading(),),
                versions={},
                started_at=0.0,
                seconds=1.0,
            )
            records.append(
                TimingRecord(
                    unit=unit, kernel=kernel, instance=instance, arch=arch, shape=str(size), contestant=unit,
                    artifact_key="a", benchmark_key=f"{unit}{size}", taken_at=float(at), report=report,
                    sizes=shapes[str(size)].sizes, runtime=shapes[str(size)].runtime,
                )
            )  # fmt: skip
        timings.add(records)
    history.close()


def units_of(root: Path, *, stop: bool) -> list[str]:
    """The units, once the daemon has them."""
    with connect_sync(root) as client:
        client.sync()
        found = [unit.id for unit in client.units()]
        if stop:
            client.stop()
        return found


@contextmanager
def served(root: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`ckwatch web`, and the address that it prints."""
    with subprocess.Popen([CKWATCH, "web", "--no-open"], cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def bare() -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A page of NiceGUI that shows one line."""
    with subprocess.Popen([sys.executable, "-c", _BARE, "18765"], stderr=subprocess.DEVNULL) as process:
        try:
            yield process, "http://127.0.0.1:18765/"
        finally:
            process.terminate()


def open_when_served(page: Page, address: str) -> None:
    """Go to an address as soon as there is a server."""
    deadline = time.monotonic() + 60
    while True:
        try:
            page.goto(address)
        except Exception:  # Playwright has no narrower one for a refused connection
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def until_usable(browser: Browser, root: Path) -> tuple[float, float]:
    """Seconds from the command until the units are there; and of the bare page. The browser is warm."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    began = time.perf_counter()
    with served(root) as (_, address):
        page.goto(address)
        page.locator('.ag-row [col-id="state"]').first.wait_for()
        ours = time.perf_counter() - began
    began = time.perf_counter()
    with bare() as (_, address):
        open_when_served(page, address)
        page.get_by_text("usable").wait_for()
        other = time.perf_counter() - began
    context.close()
    return ours, other


def longest_pause_ms(page: Page, *, plain: bool) -> tuple[float, float]:
    """The longest time between two frames while the table is scrolled, and while it is filtered."""
    page.evaluate(_WATCH_FRAMES)
    box = page.locator("tbody" if plain else ".ag-center-cols-viewport:visible").last.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, min(box["y"] + 100, 500))
    page.wait_for_timeout(500)
    page.evaluate("window.gaps = []")
    for _ in range(60):
        page.mouse.wheel(0, 400)
        page.wait_for_timeout(25)
    scrolling = float(page.evaluate("Math.max(...window.gaps)"))
    page.mouse.wheel(0, -100_000)
    page.wait_for_timeout(500)
    page.evaluate("window.gaps = []")
    for text in ("3", "39", "392", "39", ""):
        if plain:
            page.evaluate(_FILTER_PLAIN, text)
        else:
            page.get_by_placeholder("Filter").first.fill(text)
        page.wait_for_timeout(400)
    return scrolling, float(page.evaluate("Math.max(...window.gaps)"))


def in_heat_map(browser: Browser, root: Path) -> tuple[tuple[float, float], tuple[float, float], float]:
    """The longest pauses in the heat map and in the plain table, and the memory of the page's process, in MB."""
    with served(root) as (process, address):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(address)
        page.get_by_role("status").filter(has_text="live").wait_for()
        page.goto(f"{address.partition('/?')[0]}/heat-map?kernel=many")
        page.locator(".ag-row").first.wait_for()
        page.wait_for_timeout(3000)
        ours = longest_pause_ms(page, plain=False)
        cells = page.evaluate("[...document.querySelectorAll('.ag-row')][0].textContent")
        assert cells, "the heat map is empty"
        memory = memory_mb(process.pid)[1]
        rows = "".join(f"<tr><td>many/tile_{one}</td>{'<td>1.234</td>' * SHAPES * 2}</tr>" for one in range(UNITS))
        page.goto("about:blank")
        page.set_content(f"<table><tbody>{rows}</tbody></table>")
        plain = longest_pause_ms(page, plain=True)
        context.close()
    return ours, plain, memory


def bare_memory(browser: Browser) -> float:
    """Of the process of a bare page that is open, in MB."""
    with bare() as (process, address):
        context = browser.new_context()
        page = context.new_page()
        open_when_served(page, address)
        page.get_by_text("usable").wait_for()
        found = memory_mb(process.pid)[1]
        context.close()
    return found


def measure() -> list[Row]:
    """All rows."""
    chromium = installed_program("chromium", editors_folder(os.environ) / "vscode")
    keys = ("small", "untimed", "start", "scroll", "filter", "memory")
    rows: dict[str, list[tuple[float, float]]] = {key: [] for key in keys}
    with tempfile.TemporaryDirectory(prefix="ckwatch-page-") as folder, apart(), sync_playwright() as playwright:
        root = Path(folder) / "workspace"
        make_workspace(root)
        trust(root)
        units = units_of(root, stop=False)
        assert len(units) == UNITS, len(units)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        small = Path(folder) / "small"
        make_workspace(small, 2, 3)
        trust(small)
        for where, key in ((small, "small"), (root, "untimed")):
            until_usable(browser, where)
            for _ in range(asked_runs()):
                rows[key].append(until_usable(browser, where))
        subprocess.run([CKWATCH, "stop"], cwd=small, check=True)
        subprocess.run([CKWATCH, "stop"], cwd=root, check=True)
        make_history(root, units)
        units_of(root, stop=False)
        until_usable(browser, root)
        for _ in range(asked_runs()):
            rows["start"].append(until_usable(browser, root))
        for _ in range(asked_runs()):  # behind all starts, which begin in a browser that has shown no such tables
            ours, plain, memory = in_heat_map(browser, root)
            rows["scroll"].append((ours[0], plain[0]))
            rows["filter"].append((ours[1], plain[1]))
            rows["memory"].append((memory, bare_memory(browser)))
            print({name: tuple(round(one, 2) for one in found[-1]) for name, found in rows.items()}, flush=True)
        browser.close()
        subprocess.run([CKWATCH, "stop"], cwd=root, check=True)
    what = f"{UNITS:,} units, {TIMINGS:,} timings"

    def made(key: str, name: str, reference: str, unit: str, goal: str, most: float | None) -> Row:
        ours, others = ([one[at] for one in rows[key]] for at in (0, 1))
        met = None if most is None else lambda mine, _: mine <= most
        return row(name, ours, others, reference_name=reference, unit=unit, goal=goal, met=met)

    nicegui, plain_table = "a page of NiceGUI with one line", "a plain HTML table of these cells"
    return [
        made("small", "`ckwatch web` until usable, warm, 6 units", nicegui, "s", "≤ 1.5 s", 1.5),
        made("untimed", f"`ckwatch web` until usable, warm, {UNITS:,} units, no timings", nicegui, "s", "≤ 1.5 s", 1.5),
        made("start", f"`ckwatch web` until usable, warm, {what}", nicegui, "s", "≤ 1.2 s", 1.2),
        made("scroll", f"heat map, {what}: longest pause while scrolling", plain_table, "ms", "≤ 100 ms", 100.0),
        made("filter", f"heat map, {what}: longest pause while filtering", plain_table, "ms", "≤ 100 ms", 100.0),
        made("memory", f"the page's process, {what}", nicegui, "MB", "reported", None),
    ]


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
