"""The workspaces that `ckwatch init` copies: starters, and the examples that come with ckwatch."""

from __future__ import annotations

import os
from pathlib import Path

from ckwatch.model.errors import CkwatchError
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.workspace.discovery import FILE_NAME

_PACKAGE = Path(__file__).parents[1]
_EXAMPLES = (_PACKAGE / "examples", _PACKAGE.parents[1] / "examples")
"""In an installed package, and in the source tree."""

_STARTERS = {
    "gemm": "Y = X · W by Composable Kernel, in a template of your own",
    "ck_tile": "Y = X · W by CK Tile",
    "cuda": "Y = X · W by CUTLASS, for NVIDIA GPUs",
    "cpp": "Y = X · W on the host",
    "custom": "a HIP kernel of your own, with a reference in Python",
}
_HIP = ("hip", "softmax of rows in plain HIP, with a reference in Python", "softmax")


@dataclass(frozen=True, slots=True)
class Starter:
    """A folder of files to copy. `about` is one line."""

    name: str
    about: str
    folder: Path

    @property
    def files(self) -> tuple[str, ...]:
        """Paths in the folder, with `/`, in alphabetical order, without what Python and ckwatch write beside them."""
        found = (path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file())
        return tuple(sorted(path.as_posix() for path in found if not any(_is_made(part) for part in path.parts)))


def _is_made(part: str) -> bool:
    return part.startswith(".") or part == "__pycache__"


def example_folders() -> tuple[Path, ...]:
    """The folders of the examples, in alphabetical order; none where they are not installed."""
    for place in _EXAMPLES:
        found = tuple(sorted(path.parent for path in place.glob(f"*/{FILE_NAME}")))
        if found:
            return found
    return ()


def starters() -> tuple[Starter, ...]:
    """Those that show one kernel in a template of one's own, the default one first."""
    place = Path(__file__).parent / "starters"
    name, about, example = _HIP
    hip = tuple(Starter(name, about, folder) for folder in example_folders() if folder.name == example)
    return (*(Starter(name, about, place / name) for name, about in _STARTERS.items()), *hip)


def instructions_for_agents() -> Starter:
    """Files for coding agents, which go into a workspace that is there."""
    about = "instructions and a skill for coding agents, into a workspace that is there"
    return Starter("agents", about, Path(__file__).parent / "starters/agents")


def examples() -> tuple[Starter, ...]:
    """Each example, described by the first comment of its `ckwatch.toml`."""
    return tuple(Starter(folder.name, _first_sentence(folder / FILE_NAME), folder) for folder in example_folders())


def _first_sentence(path: Path) -> str:
    line = path.read_text("utf-8").splitlines()[0].removeprefix("#").strip()
    return line.partition(":")[0].removesuffix(".")


def copy_starter(starter: Starter, folder: Path) -> list[Path]:
    """Copy the files of a starter into `folder`, which is made if it is not there.

    Returns the files written, as absolute paths. Raises CkwatchError, and writes nothing, if one of them exists or the
    folder cannot be written to.
    """
    # a link to the folder stays the path it was given by
    folder = Path(os.path.abspath(folder))  # noqa: PTH100
    targets = [folder / name for name in starter.files]
    present = [target for target in targets if os.path.lexists(target)]
    if present:
        names = ", ".join(str(target) for target in present)
        raise CkwatchError(f"already there: {names}", "choose another folder, or move these files away")
    written: list[Path] = []
    try:
        for name, target in zip(starter.files, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as file:
                written.append(target)
                file.write(starter.folder.joinpath(name).read_bytes())
    except OSError as error:
        for target in written:
            target.unlink(missing_ok=True)
        raise CkwatchError(f"cannot write a workspace to {folder}: {(error.strerror or str(error)).lower()}") from None
    return written
