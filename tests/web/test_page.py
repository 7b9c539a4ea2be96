"""The page in Chromium, with a real daemon, a host compiler and hipcc: what holds for all views."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # it has no types
from playwright.sync_api import Browser, Locator, Page, expect

from ckwatch.client.blocking import SyncClient
from ckwatch_web.view import PageView
from ckwatch_web.views.all import VIEWS
from fakes.patience import PATIENCE_S
from helpers.web_page import HOSTILE, PATIENCE_MS, Site, program_path, run, site_of, web

pytestmark = [pytest.mark.browser, pytest.mark.toolchain]

OF_ALL = pytest.mark.parametrize("view", VIEWS.values(), ids=lambda view: view.name)
Workspace = tuple[Path, SyncClient]

expect.set_options(timeout=PATIENCE_MS)


def cells(page: Page, row: str, column: str) -> Locator:
    """A cell of the row with this id, in any table."""
    return page.locator(f'.ag-row[row-id="{escape(row, quote=False)}"] [col-id="{column}"]')


def test_units_are_those_of_the_client(site: Site) -> None:
    units = site.client.units()
    with site.view("/") as page:
        expect(page.locator("h1")).to_have_text(f"Now: {len(units)} units")
        for unit in units:
            expect(cells(page, unit.id, "unit")).to_have_text(unit.id)
            expect(cells(page, unit.id, "state")).to_have_text(unit.outcome or "")
            if unit.figures is not None:
                expect(cells(page, unit.id, "resources")).to_have_text(unit.figures.headline)


def test_a_mistake_in_a_template_appears_with_its_place_and_goes(site: Site) -> None:
    template = site.root / "templates/gemm_blocked.cpp.j2"
    text = template.read_text()
    wrong = text.replace('argument("MPerBlock")', 'argument("MPerBlok")')
    line = next(at for at, one in enumerate(wrong.splitlines(), 1) if "MPerBlok" in one)
    with site.view("/") as page:
        expect(page.get_by_role("region", name="Messages")).to_have_count(0)
        try:
            template.write_text(wrong)
            message = page.get_by_role("region", name="Messages").locator('[col-id="message"]', has_text="MPerBlok")
            message.first.click()
            place = page.get_by_role("link", name="in VS Code")
            expect(place).to_have_attribute("href", re.compile(re.escape(f"vscode://file{template}:{line}:")))
            expect(page.get_by_text(f"{template}:{line}:")).to_be_visible()
        finally:
            template.write_text(text)
        expect(page.get_by_role("region", name="Messages")).to_have_count(0)
    assert site.client.build("gemm").ok


def test_the_browser_shows_what_becomes_worse(site: Site) -> None:
    """Where its user allows it: what fails, once, and not what failed before."""
    template = site.root / "templates/gemm_blocked.cpp.j2"
    text = template.read_text()
    with site.view("/") as page:
        alerts = page.get_by_role("button", name="Alerts")
        page.evaluate("() => { Notification.requestPermission = async () => 'denied' }")
        alerts.click()
        expect(page.get_by_text("does not let the page show alerts")).to_be_visible()
        expect(alerts).to_have_attribute("aria-pressed", "false")
        page.evaluate(
            "() => { window.shown = []; window.Notification = class { static permission = 'granted';"
            " static async requestPermission() { return 'granted' };"
            " constructor(title, { body }) { shown.push(`${title}: ${body}`) } } }"
        )
        alerts.click()
        expect(alerts).to_have_attribute("aria-pressed", "true")
        try:
            template.write_text(text.replace('argument("MPerBlock")', 'argument("MPerBlok")'))
            page.wait_for_function("shown.length")
            units = {unit.id for unit in site.client.units() if unit.kernel == "gemm"}
            assert set(page.evaluate("shown")) <= {f"ckwatch: {unit}: failed to build" for unit in units}
        finally:
            template.write_text(text)
        expect(page.get_by_role("region", name="Messages")).to_have_count(0)
        page.reload()
        expect(alerts).to_have_attribute("aria-pressed", "true")
        alerts.click()
        expect(alerts).to_have_attribute("aria-pressed", "false")
    assert site.client.build("gemm").ok


def test_a_view_outlives_the_daemon(site: Site) -> None:
    kernel_file = site.root / "gemm.kernel.toml"
    text = kernel_file.read_text()
    with site.view("/") as page:
        status = page.get_by_role("status")
        site.client.stop()
        expect(status).to_contain_text("No daemon")
        expect(cells(page, "gemm/4x8@host", "unit")).to_be_visible()
        site.client.sync()  # which starts another
        expect(status).to_contain_text("live")
        try:
            kernel_file.write_text(text + '\n[[instance]]\nname = "new"\n')
            expect(cells(page, "gemm/new@host", "unit")).to_be_visible()
        finally:
            kernel_file.write_text(text)
        expect(cells(page, "gemm/new@host", "unit")).to_have_count(0)


@OF_ALL
def test_a_name_is_text_everywhere(site: Site, view: PageView) -> None:
    """A script in a name would attack the site, too."""
    with site.view(view.path, kernel="gemm", unit=HOSTILE, against=HOSTILE) as page:
        expect(page.locator("main h1")).to_contain_text(view.title)
        expect(page.locator('img[src="x"]')).to_have_count(0)
        page.wait_for_timeout(300)


@OF_ALL
def test_a_view_fits_a_phone(site: Site, view: PageView) -> None:
    with site.view(view.path) as page:
        page.set_viewport_size({"width": 390, "height": 844})
        page.reload()
        page.get_by_role("status").filter(has_text="live").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


@OF_ALL
def test_nobody_is_kept_out(site: Site, view: PageView) -> None:
    """Names for screen readers, contrast, landmarks and all else that axe knows, on a light page and a dark one."""
    with site.view(view.path) as page:
        page.locator("main section, main .note").first.wait_for()
        for plot in page.locator(".plot").all():
            expect(plot).to_have_attribute("role", "img")
        assert violations(page) == []
        page.get_by_role("button", name="Dark or light").click()
        page.locator("body.body--dark, body.body--light").first.wait_for()
        page.wait_for_timeout(300)  # colours fade from one to the other
        assert violations(page) == []


def violations(page: Page) -> list[str]:
    """The rules of axe that are broken, with an element for each."""
    found = Axe().run(page, options={"preload": False}).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


def test_an_address_that_is_none_leads_back(site: Site) -> None:
    page = site.context.new_page()
    try:
        answer = page.goto(f"{site.origin}/no<b>such")
        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_text("There is nothing at /no<b>such")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("link", name="History").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("History")
    finally:
        page.close()


def test_a_unit_is_reached_by_the_keyboard(site: Site) -> None:
    with site.view("/") as page:
        page.get_by_label("Filter Units").focus()
        page.keyboard.type("k32")
        expect(cells(page, "gemm/4x8@host", "unit")).to_have_count(0)
        page.keyboard.press("Tab")  # what clears the filter
        for _ in range(3):
            page.keyboard.press("Tab")
        cells(page, "tiled/k32@gfx942", "unit").focus()
        page.keyboard.press("Space")
        ways = page.get_by_role("region", name="Units", exact=True).get_by_role("link")
        expect(ways.filter(has_text="VS Code")).to_be_visible()


def test_dark_and_light(site: Site) -> None:
    with site.view("/") as page:
        body = page.locator("body")
        for scheme, name in (("dark", "body--dark"), ("light", "body--light")):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]  # one of two
            page.reload()
            expect(body).to_have_class(re.compile(name))
        page.get_by_role("button", name="Dark or light").click()
        expect(body).to_have_class(re.compile("body--dark"))


def test_a_table_is_a_csv_file(site: Site) -> None:
    with site.view("/") as page, page.expect_download() as download:
        page.get_by_role("region", name="Units").get_by_role("button", name="CSV").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0].startswith("unit,state,")
    assert [line.partition(",")[0] for line in lines[1:]] == [unit.id for unit in site.client.units()]


def test_a_plot_is_a_picture(site: Site) -> None:
    with site.view("/") as page, page.expect_download() as download:
        page.get_by_role("button", name="PNG").first.click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_nothing_is_changed_unless_it_is_allowed(site: Site) -> None:
    with site.view("/") as page:
        expect(page.get_by_role("region", name="Units", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Build all")).to_have_count(0)


def test_what_is_allowed_is_done(chromium: Browser, workspace_of_page: Workspace) -> None:
    with site_of(chromium, workspace_of_page, "--allow-changes") as site, site.view("/") as page:
        page.get_by_role("button", name="Build all").click()
        expect(page.get_by_text("built", exact=True).and_(page.locator(".q-notification *"))).to_be_visible()


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "ckwatch: interrupted\n"), (signal.SIGTERM, 143, "ckwatch: ended by SIGTERM\n")],
)
def test_it_ends_with_a_word_while_a_window_is_open(
    chromium: Browser, workspace_of_page: Workspace, number: signal.Signals, status: int, said: str
) -> None:
    root, _ = workspace_of_page
    with web(root) as (process, address):
        context = chromium.new_context()
        page = context.new_page()
        page.goto(address)
        page.get_by_role("status").filter(has_text="live").wait_for()
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_S)
        context.close()
    assert (process.returncode, errors) == (status, said)


# Attacks.


class _Attacker(BaseHTTPRequestHandler):
    """A page elsewhere that tries what it can on the page at `target`."""

    target = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(
            f"""<title>trying</title><iframe id=frame src="{self.target}/"></iframe><script>
            const found = [];
            const attempt = async (name, act) => {{ try {{ await act(); found.push(name); }} catch {{}} }};
            (async () => {{
              await attempt("read", async () => (await fetch("{self.target}/csv/now/units", {{credentials: "include"}})).text());
              await attempt("socket", () => new Promise((resolve, reject) => {{
                const socket = new WebSocket("{self.target.replace("http", "ws")}/_nicegui_ws/socket.io/?EIO=4&transport=websocket");
                socket.onopen = resolve; socket.onerror = reject; }}));
              await attempt("script", () => new Promise((resolve, reject) => {{
                const script = document.createElement("script"); script.src = "{self.target}/csv/now/units";
                script.onload = resolve; script.onerror = reject; document.head.append(script); }}));
              document.title = "found: " + found.join();
            }})();</script>""".encode()
        )

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as it is called there
        """Nothing."""


@contextmanager
def attacker(target: str) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Attacker", (_Attacker,), {"target": target}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_another_page_gets_nothing(site: Site, host: str) -> None:
    """From the same browser, which has the cookie; from the same site, and from another."""
    with attacker(site.origin) as address:
        page = site.context.new_page()
        page.goto(address.replace("127.0.0.1", host))
        page.wait_for_function("document.title.startsWith('found')")
        assert page.title() == "found:"
        frame = page.frames[1]
        assert frame.url.startswith("chrome-error:")
        page.close()


def test_a_rebound_name_gets_nothing(site: Site) -> None:
    rules = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    browser = site.context.browser
    assert browser is not None
    other = browser.browser_type.launch(executable_path=program_path(), args=["--no-sandbox", rules])
    page = other.new_page()
    answer = page.goto(site.origin.replace("127.0.0.1", "evil.example"))
    assert answer is not None
    assert answer.status == 403
    assert "another name" in page.content()
    other.close()


def test_without_the_token_there_is_nothing(chromium: Browser, site: Site) -> None:
    stranger = chromium.new_context()
    page = stranger.new_page()
    for path in ("/", "/history", "/csv/now/units", "/assets/style.css"):
        answer = page.goto(site.origin + path)
        assert answer is not None
        assert answer.status == 403, path
    used = page.goto(site.address)
    assert used is not None
    assert used.status == 403
    assert "used already" in page.content()
    stranger.close()


def test_the_file_that_a_browser_is_given_opens_the_page(
    chromium: Browser, workspace_of_page: Workspace, tmp_path: Path
) -> None:
    root, _ = workspace_of_page
    told = tmp_path / "told"
    os.mkfifo(told)
    (tmp_path / "browser").write_text(f'#!/bin/sh\necho "$1" > "{told}"\n')
    (tmp_path / "browser").chmod(0o700)
    with web(root, browser=str(tmp_path / "browser")):
        url = told.read_text().strip()
        context = chromium.new_context()
        page = context.new_page()
        page.goto(url)
        page.get_by_role("status").filter(has_text="live").wait_for()
        assert page.evaluate("document.referrer") == ""
        assert "token" not in page.url
        assert not Path(url.removeprefix("file://")).exists()
        context.close()


def test_a_script_in_the_page_is_not_run(site: Site) -> None:
    """The policy keeps out what would have got into the page all the same."""
    page = site.context.new_page()
    page.goto(site.origin)
    page.get_by_role("status").filter(has_text="live").wait_for()
    ran = page.evaluate("""() => {
        const script = document.createElement("script"); script.textContent = "window.ran = 1"; document.body.append(script);
        const holder = document.createElement("div"); holder.innerHTML = "<img src=x onerror='window.ran = 2'>";
        document.body.append(holder);
        return new Promise(resolve => setTimeout(() => resolve(window.ran ?? 0), 300));
    }""")
    assert ran == 0
    page.close()


# Files.


def test_the_views_as_files_need_no_server(chromium: Browser, workspace_of_page: Workspace, tmp_path: Path) -> None:
    root, client = workspace_of_page
    said = run(root, "web", "--export", str(tmp_path / "out"))
    assert "index.html" in said
    context = chromium.new_context()
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    files = sorted((tmp_path / "out").glob("*.html"))
    found: set[tuple[str, str]] = set()
    for file in files:
        page.goto(file.as_uri())
        expect(page.locator("main h1")).to_be_visible()
        for plot in page.locator("[data-plot]").all():
            expect(plot.locator("canvas").first).to_be_visible()
        expect(page.locator('img[src="x"]')).to_have_count(0)
        found |= {(file.name.partition("-")[0], one) for one in violations(page)}
    assert found == set()
    page.goto((tmp_path / "out/index.html").as_uri())
    for unit in client.units():
        expect(page.get_by_role("cell", name=unit.id, exact=True)).to_be_visible()
    assert problems == []
    assert len(files) >= len(VIEWS)
    context.close()
