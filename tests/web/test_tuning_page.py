"""Tuning runs on the page, in Chromium with a real daemon and the host's compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ckwatch import connect_sync
from ckwatch.client.blocking import SyncClient
from ckwatch.workspace.trust import trust
from helpers.web_page import HOST_KERNEL, PATIENCE_MS, site_of

pytestmark = [pytest.mark.browser, pytest.mark.toolchain]

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def untuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, SyncClient]]:
    """A workspace of its own, with one kernel of three instances for the host."""
    root = tmp_path.resolve()
    (root / "ckwatch.toml").write_text("[workspace]\n")
    (root / "gemm.kernel.toml").write_text(HOST_KERNEL.replace('"gemm_blocked', '"cpp/gemm_blocked'))
    trust(root)
    monkeypatch.delenv("CKWATCH_NO_DAEMON", raising=False)
    with connect_sync(root, client_name="tests") as client:
        yield root, client
        client.stop()


def test_a_run_is_begun_seen_and_kept(chromium: Browser, untuned: tuple[Path, SyncClient]) -> None:
    with site_of(chromium, untuned, "--allow-changes") as site:
        with site.view("/tuning") as page, site.view("/tuning") as other:
            expect(other.get_by_text("gemm has not been tuned")).to_be_visible()
            page.get_by_role("button", name="Tune gemm").click()
            for window in (page, other):
                expect(window.get_by_text("Ended: ")).to_be_visible()
                expect(window.get_by_role("region", name="Evaluated on")).to_contain_text("(3)")
                expect(window.get_by_role("button", name="Another run like")).to_be_enabled()
                expect(window.get_by_role("button", name="Stop")).to_be_disabled()
        (run,) = site.client.tuning_runs()
        assert (run.points, run.running) == (3, False)
        assert run.budget_s == 1200


def test_a_kernel_that_cannot_be_tuned_says_why(chromium: Browser, workspace_of_page: tuple[Path, SyncClient]) -> None:
    with (
        site_of(chromium, workspace_of_page, "--allow-changes") as site,
        site.view("/tuning", kernel="tiled") as page,
    ):
        page.get_by_role("button", name="Tune tiled").click()
        expect(page.get_by_text(re.compile("has failed: there is no device"))).to_be_visible()
        expect(page.get_by_role("button", name="Tune tiled")).to_be_enabled()
