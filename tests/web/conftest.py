"""One browser, and one workspace with its daemon, for all tests of the page."""

from __future__ import annotations

from helpers.web_page import chromium, site, workspace_of_page

__all__ = ["chromium", "site", "workspace_of_page"]
