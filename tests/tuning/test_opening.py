"""What a tuning run begins with."""

from __future__ import annotations

from ckwatch.tuning.opening import nearest


def test_the_nearest_shapes_come_first() -> None:
    others = {
        "far": {"M": 4096, "N": 4096, "K": 64},
        "near": {"M": 32, "N": 4096, "K": 4096, "LDA": 7},
        "as near": {"M": 16, "N": 4096, "K": 2048},
        "none": {"M": 16, "N": 4096, "K": 0},
    }
    assert nearest({"M": 16, "N": 4096, "K": 4096, "LDD": 0}, others) == ["near", "as near", "none", "far"]
    assert nearest({"M": 16}, {}) == []
