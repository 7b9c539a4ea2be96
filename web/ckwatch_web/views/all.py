"""All views, in the order of the page's menu."""

from __future__ import annotations

from ckwatch_web.view import View
from ckwatch_web.views import compare, compile_time, now, predicted, verification

VIEWS: dict[str, View] = {
    view.name: view for view in (now.VIEW, compare.VIEW, compile_time.VIEW, predicted.VIEW, verification.VIEW)
}
