"""Files of the daemon, and its report of how it was started."""

from __future__ import annotations

from pathlib import Path

from ckwatch.engine.bootstrap import database_path, priority_warning
from ckwatch.wire.endpoint import endpoint_of


def test_each_workspace_has_a_history_beside_its_log(tmp_path: Path) -> None:
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}
    path = database_path(tmp_path / "w", environment)
    assert path.is_relative_to(tmp_path / "state/ckwatch/workspaces")
    assert path.parent == endpoint_of(tmp_path / "w", environment).log.parent
    assert path != database_path(tmp_path / "v", environment)
    assert not path.parent.exists()


def test_a_daemon_that_was_niced_says_so() -> None:
    assert priority_warning(0) is None
    assert priority_warning(-5) is None
    assert "niceness 19" in (priority_warning(19) or "")
