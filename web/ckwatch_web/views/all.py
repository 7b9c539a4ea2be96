"""All views, in the order of the page's menu."""

from __future__ import annotations

from ckwatch_web.view import PageView
from ckwatch_web.views import (
    compare,
    compile_time,
    heat_map,
    history,
    now,
    predicted,
    profile,
    roofline,
    tuning,
    verification,
)

VIEWS: dict[str, PageView] = {
    view.name: view
    for view in (
        *(now.VIEW, heat_map.VIEW, roofline.VIEW, history.VIEW, compare.VIEW),
        *(tuning.VIEW, compile_time.VIEW, profile.VIEW, predicted.VIEW, verification.VIEW),
    )
}

OF_KERNELS = ("heat-map", "roofline", "tuning", "predicted")
"""Views that show one kernel, by `kernel` in their address."""

OF_UNITS = ("history", "compare", "compile-time", "profile", "verification")
"""Views that show one unit, by `unit` in their address."""
