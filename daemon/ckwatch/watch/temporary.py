"""Names that editors use for a moment while they save, and that mean nothing to anybody else.

A file that is followed by its own name is reported whatever it is called.
"""

from __future__ import annotations

import re

TEMPORARY_NAMES: dict[str, str] = {
    r".*~": "backup: Vim, Emacs, Kate, gedit, nano",
    r"\..*\.sw[a-z]": "swap file: Vim, Neovim",
    r"4913|5036|5159|5282|5405": "Vim asks whether it may write here; further numbers when the first is taken",
    r"\.#.*": "lock (a dangling link): Emacs",
    r"#.*#": "auto-save: Emacs",
    r".*___jb_(tmp|old)___": "safe write: JetBrains",
    r"\.goutputstream-.*": "safe write: gedit and everything else on GIO",
    r"\..*\.kate-swp": "swap file: Kate",
    r".*\.bck": "backup while writing: Helix",
    r"\..*\.kak\..*": "safe write: Kakoune",
    r"\.subl.*\.tmp": "atomic save: Sublime Text",
    r"\.~lock\..*#": "lock: LibreOffice",
    r"sed[A-Za-z0-9]{6}": "sed -i",
    r"\.nfs[0-9a-f]+|\.fuse_hidden.*": "deleted while open: NFS, FUSE",
    r"\..*\.(tmp|part)|.*\.crswap": "rsync-like tools, browsers",
}
"""Regular expressions of whole names, each with whose they are."""

_TEMPORARY = re.compile("|".join(f"(?:{pattern})" for pattern in TEMPORARY_NAMES), re.DOTALL)


def is_temporary(name: str) -> bool:
    """Whether a file of this name (without its folder) is an editor's own."""
    return _TEMPORARY.fullmatch(name) is not None
