"""Each view in Chromium: it shows what the client says, and changes when a kernel file is edited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from ckwatch.client.blocking import SyncClient
from ckwatch.model.amounts import time_of
from ckwatch_web.places import place_of
from helpers.web_page import PATIENCE_MS, Site, site_of

pytestmark = [pytest.mark.browser, pytest.mark.toolchain]

FIRST, SECOND = "tiled/k16@gfx942", "tiled/k32@gfx942"

expect.set_options(timeout=PATIENCE_MS)


def region(page: Page, name: str) -> Locator:
    """A table or a plot by the beginning of its title."""
    return page.locator(f'section[aria-label^="{name}"]')


def cell(page: Page, name: str, first: str, column: str) -> Locator:
    """In the table `name`, the cell of the row in which some cell has the text `first`."""
    table = region(page, name)
    named = table.locator(".ag-row", has=page.locator(".ag-cell", has_text=re.compile(f"^{re.escape(first)}$"))).first
    expect(named).to_be_visible()
    number = named.get_attribute("row-index")
    return table.locator(f'.ag-row[row-index="{number}"] [col-id="{column}"]')


@contextmanager
def edited(path: Path, old: str, new: str) -> Iterator[None]:
    """A file that is another one meanwhile."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    try:
        yield
    finally:
        path.write_text(text)


def four_digits(value: float) -> str:
    return f"{value:.4g}"


def test_instances_and_shapes(site: Site) -> None:
    (ours,), (theirs,) = (site.client.timings(unit, "small", 1) for unit in (FIRST, SECOND))
    with site.view("/heat-map", kernel="tiled") as page:
        title = "Time ÷ the best on the shape"
        expect(cell(page, title, "k16", "worst")).to_have_text("1.000")
        expect(cell(page, title, "k32", "worst")).to_have_text(f"{theirs.median_us / ours.median_us:.3f}")
        expect(cell(page, title, "k32", "fastest")).to_have_text(time_of(theirs.median_us))


def test_the_roofline(site: Site) -> None:
    (timing,) = site.client.timings(FIRST, "small", 1)
    with site.view("/roofline", kernel="tiled") as page:
        expect(cell(page, "Timings and their bounds", "k16", "median")).to_have_text(time_of(timing.median_us))
        shape = next(one for one in site.client.analysis(FIRST).shapes if one.prediction.cache == "cold")
        assert shape.prediction.time_us is not None
        predicted = cell(page, "Predicted, not measured", "small", "predicted")
        expect(predicted).to_have_text(time_of(shape.prediction.time_us))


def test_a_history(site: Site) -> None:
    timings, runs = site.client.timings(FIRST), site.client.runs(FIRST)
    with site.view("/history", unit=FIRST) as page:
        expect(region(page, "Timings").locator("h2")).to_have_text(f"Timings ({len(timings)})")
        expect(region(page, "Compiles").locator("h2")).to_have_text(f"Compiles ({len(runs)})")
        for timing in timings:
            if timing.failure is None:
                medians = region(page, "Timings").locator('.ag-cell[col-id="median"]')
                expect(medians.filter(has_text=time_of(timing.median_us)).first).to_be_visible()


def test_two_instances_side_by_side(site: Site) -> None:
    details = [site.client.unit(unit) for unit in (FIRST, SECOND)]
    (compared,) = [one for one in site.client.compare(FIRST, SECOND) if one.comparison is not None]
    with site.view("/compare", unit=FIRST, against=SECOND) as page:
        for column, detail in zip(("ours", "theirs"), details, strict=True):
            value = cell(page, "Parameters", "KPerBlock", column)
            expect(value).to_have_text(str(detail.parameters["KPerBlock"]))
            expect(value).to_have_class(re.compile("differs"))
            expect(cell(page, "Parameters", "BlockSize", column)).not_to_have_class(re.compile("differs"))
            assert detail.unit.figures is not None
            expect(cell(page, "Code objects", "VGPR", column)).to_have_text(str(detail.unit.figures.vgprs))
        assert compared.comparison is not None
        expect(cell(page, "Measured on each shape", "small", "verdict")).to_contain_text(compared.comparison.verdict)
        listing = site.client.isa(FIRST, lines=False)
        first = region(page, "Instructions of the main loop").locator('.ag-cell[col-id="ours"]').first
        assert first.inner_text().split()[0] in listing.text


def test_predictions(site: Site) -> None:
    ranking = site.client.predicted("tiled", "small", arch="gfx942")
    with site.view("/predicted", kernel="tiled", shape="small", part=ranking.part) as page:
        for row in ranking.rows:
            shown = cell(page, f"Predicted for {ranking.part}", row.name, "predicted")
            assert row.prediction.time_us is not None
            expect(shown).to_have_text(time_of(row.prediction.time_us))
        expect(page.get_by_text("Nothing of this was measured here")).to_be_visible()


def test_where_the_compile_time_goes(site: Site) -> None:
    with site.view("/compile-time", unit=SECOND) as page:
        seconds = next(unit.seconds for unit in site.client.units() if unit.id == SECOND)
        expect(cell(page, "Compile time by unit", SECOND, "seconds")).to_have_text(f"{round(seconds, 2):g}")
        page.get_by_role("button", name="Trace the compile").click()
        expect(region(page, "Flame graph, device pass").locator("canvas").first).to_be_visible()
        stages = region(page, "Stages of each pass")
        expect(stages.locator(".ag-cell", has_text="template instantiation").first).to_be_visible()
        expect(region(page, "Costliest templates").locator(".ag-row").first).to_be_visible()


def test_a_line_and_its_instructions(site: Site) -> None:
    """A selected line marks the instructions that it became, by mouse, and one of these its line, by keyboard."""
    with site.view("/profile", unit=FIRST, text="hottest") as page:
        page.get_by_role("button", name="Profile the unit").click()
        expect(page.get_by_text("Counted (emulated gfx942): counts are exact")).to_be_visible()
        (kernel,) = site.client.profile(FIRST).kernels
        lines, instructions = region(page, "Lines by share"), region(page, "Instructions")
        at, hottest = max(
            ((at, line) for at, line in enumerate(kernel.lines) if line.in_template),
            key=lambda pair: pair[1].total.counts.issued,
        )
        row = f'.ag-row[row-id="{hottest.path}:{hottest.line + 1}:1"]'
        share = lines.locator(f'{row} [col-id="share"]')
        expect(share).to_have_text(four_digits(round(100 * kernel.share(hottest.total), 2)))
        expect(share).to_have_class(re.compile("share-[4-6]"))
        share.click()
        called = {f"{one.address:x}" for one in kernel.instructions
                  if one.chain is not None and at in kernel.chains[one.chain]}  # fmt: skip
        expect(lines.get_by_text(f"{len(called)} rows beside it")).to_be_visible()
        marked = instructions.locator(".ag-row.linked").first
        expect(marked).to_be_visible()
        assert marked.get_attribute("row-id") in called
        marked.locator('[col-id="text"]').focus()
        page.keyboard.press("Space")
        expect(lines.locator(f"{row}.linked")).to_have_count(1)
        expect(instructions.locator(".ag-row.linked")).to_have_count(0)
        flames = region(page, "Functions that were inlined").locator(".plot")
        expect(flames).to_have_attribute("aria-label", re.compile(f"{kernel.total.counts.issued:,} instructions"))


def test_what_the_emulator_said(site: Site) -> None:
    """A kernel that is right, and one that writes beyond its result, with the place of that."""
    (right,) = site.client.verify(FIRST)
    assert right.verification is not None
    with site.view("/verification", unit=FIRST) as page:
        expect(cell(page, "Units, emulated", FIRST, "summary")).to_have_text(right.summary)
        title = region(page, "Shapes that were tried").locator("h2")
        expect(title).to_contain_text(f"({len(right.verification.problems)})")


def test_what_is_wrong_has_its_place(site: Site) -> None:
    shipped = next(
        path
        for path in site.client.template("hip/gemm_tiled.hip.j2").files.values()
        if path.endswith("gemm_tiled.hip.j2")
    )
    own = site.root / "templates/wrong.hip.j2"
    kernel_file = site.root / "wrong.kernel.toml"
    text = Path(shipped).read_text()
    old = "if (m >= problem.M || n >= problem.N) continue;"
    assert text.count(old) >= 1, "the guard of the store"
    own.write_text(text.replace(old, "if (m > problem.M || n >= problem.N) continue;"))
    kernel_file.write_text(
        (site.root / "tiled.kernel.toml").read_text().replace("hip/gemm_tiled", "wrong").replace('"tiled"', '"wrong"')
    )
    try:
        (wrong,) = site.client.verify("wrong/k16@gfx942")
        assert wrong.outcome == "failed", wrong.summary
        assert wrong.verification is not None
        finding = next(one for one in wrong.verification.findings if one.place is not None)
        place = place_of(finding.place)
        assert place is not None
        with site.view("/verification", unit="wrong/k16@gfx942") as page:
            findings = region(page, "Findings")
            findings.locator('[col-id="message"]', has_text=finding.message).first.click()
            expect(findings.get_by_text(place.text)).to_be_visible()
    finally:
        kernel_file.unlink()
        own.unlink()


def test_views_change_with_a_kernel_file(site: Site) -> None:
    kernel_file = site.root / "tiled.kernel.toml"
    site.client.verify(SECOND)
    runs = len(site.client.runs(SECOND))
    with (
        site.view("/compare", unit=FIRST, against=SECOND) as compare,
        site.view("/history", unit=SECOND) as history,
        site.view("/verification", unit=SECOND) as verification,
        site.view("/predicted", kernel="tiled", shape="small") as predicted,
    ):
        summary = cell(verification, "Units, emulated", SECOND, "summary")
        expect(summary).to_contain_text("✓ verified")
        place = cell(predicted, "Predicted for", "k32", "instance")
        expect(place).to_be_visible()
        with edited(kernel_file, "KPerBlock = 32", "KPerBlock = 8"):
            site.client.build("tiled")
            expect(cell(compare, "Parameters", "KPerBlock", "theirs")).to_have_text("8")
            expect(region(history, "Compiles").locator("h2")).to_have_text(f"Compiles ({runs + 1})")
            expect(verification.get_by_text("stale").first).to_be_visible()
        with edited(kernel_file, '"k32"', '"renamed"'):
            expect(predicted.locator(".ag-cell", has_text="renamed").first).to_be_visible()
    site.client.build("tiled")


def test_a_tuning_run(chromium: Browser, workspace_of_page: tuple[Path, SyncClient]) -> None:
    """Of this process, on the host: it appears while it goes on, with its best."""
    with site_of(chromium, workspace_of_page) as site, site.view("/tuning") as page:
        expect(page.get_by_text("ckwatch tune").first).to_be_visible()
        points = [{"MPerThread": 4, "MPerBlock": 48, "NPerBlock": 64, "KPerBlock": 128, "NPerThread": 8, "Threads": 1}]
        with site.client.tune("gemm", instances=points, shapes=["small"]) as run:
            record = run.finish()
        best = record.best("small")
        assert best is not None
        expect(page.locator("main")).to_contain_text(best.instance)
        (known,) = site.client.tuning_runs("gemm")
        assert known.best["small"].median_us == best.median_us


def test_what_an_address_names_and_is_gone(site: Site) -> None:
    """It is said, with the way to a near name, at once and when it happens while the window is open."""
    kernel_file = site.root / "tiled.kernel.toml"
    with site.view("/history", unit="tiled/k61@gfx942", limit="500") as page:
        expect(page.locator("h1")).to_have_text("History: gone")
        expect(page.locator("main .note")).to_contain_text("unit=tiled/k61@gfx942, which no longer exists")
        expect(page.locator("main section")).to_have_count(0)
        page.get_by_role("link", name=FIRST, exact=True).click()
        expect(page.locator("h1")).to_have_text(f"History: {FIRST}")
        expect(page).to_have_url(re.compile("limit=500"))
        expect(region(page, "Timings")).to_be_visible()
        with edited(kernel_file, '"k16"', '"k17"'):
            expect(page.get_by_role("link", name="tiled/k17@gfx942", exact=True)).to_be_visible()
            expect(page.locator("main section")).to_have_count(0)
            page.get_by_label("Unit").click()
            page.get_by_role("option", name="tiled/k17@gfx942").click()
            expect(page.locator("h1")).to_have_text("History: tiled/k17@gfx942")
    site.client.build("tiled")


def test_what_was_chosen_for_another_kernel_is_not_gone(site: Site) -> None:
    with site.view("/roofline", kernel="tiled", unit=FIRST) as page:
        expect(region(page, "Timings and their bounds")).to_be_visible()
        page.get_by_label("Kernel").click()
        page.get_by_role("option", name="gemm", exact=True).click()
        expect(page.locator("h1")).to_contain_text("Roofline: gemm")
        expect(page).not_to_have_url(re.compile("unit=tiled"))
