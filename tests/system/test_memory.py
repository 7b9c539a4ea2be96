"""Memory that compilers may use."""

from __future__ import annotations

from pathlib import Path

from ckwatch.system.memory import available_bytes, used_by_children_bytes


def test_free_memory(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemAvailable:   50 kB\n")
    assert available_bytes(tmp_path, tmp_path / "no") == 50 * 1024
    (tmp_path / "memory.max").write_text("30000")
    (tmp_path / "memory.current").write_text("10000")
    assert available_bytes(tmp_path, tmp_path) == 20000
    (tmp_path / "memory.max").write_text("max")
    assert available_bytes(tmp_path, tmp_path) == 50 * 1024
    (tmp_path / "meminfo").write_text("?")
    assert available_bytes(tmp_path, tmp_path) is None


def test_memory_of_all_descendants(tmp_path: Path) -> None:
    rows = {10: (1, 5), 11: (10, 7), 12: (11, 100), 13: (2, 1000), 14: (10, 3), 15: (10, None)}
    for pid, (parent, kilobytes) in rows.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a (strange) name) S {parent} 0 0")
        if kilobytes is not None:
            shown = f"Rss: 5000 kB\nShared_Clean:  900 kB\nPrivate_Clean:  2 kB\nPrivate_Dirty:      {kilobytes} kB\n"
            (tmp_path / str(pid) / "smaps_rollup").write_text(shown)
    assert used_by_children_bytes(10, tmp_path) == (9 + 102 + 5) * 1024
