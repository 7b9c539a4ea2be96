"""All views, in the order of the page's menu."""

from __future__ import annotations

from ckwatch_web.view import PageView

VIEWS = {
    view.name: view
    for view in (
        PageView(name="now", title="Now", untimed=True),
        PageView(name="heat-map", title="Instances × shapes"),
        PageView(name="roofline", title="Roofline"),
        PageView(name="history", title="History"),
        PageView(name="compare", title="Compare"),
        PageView(name="tuning", title="Tuning"),
        PageView(name="compile-time", title="Compile time"),
        PageView(name="profile", title="Profile"),
        PageView(name="predicted", title="Predicted"),
        PageView(name="verification", title="Verification"),
    )
}

OF_KERNELS = ("heat-map", "roofline", "tuning", "predicted")
"""Views that show one kernel, by `kernel` in their address."""

OF_UNITS = ("history", "compare", "compile-time", "profile", "verification")
"""Views that show one unit, by `unit` in their address."""
