"""`python -m random_programs`: random kernels on the emulator against the same text on the host.

`make random-programs` runs it. Prints every difference and every finding with its seed, and makes the first ones of each
arch and level small. Exit status 1 if there is one: each is a mistake of the emulator, the compiler or the generator.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import anyio

from ckwatch.compile.toolchain.discover import discover
from ckwatch.verification.library import build_library
from random_programs.execution import ARCHS, LEVELS, Difference, Programs, reduced
from random_programs.programs import Generator, Kernel


def smallest(programs: Programs, kernel: Kernel, found: Difference) -> str:
    """Return the text of the least kernel that differs in the same way."""

    def differs(tried: Kernel) -> bool:
        try:
            left = programs.differences([tried], found.seed, [found.arch], [found.level])
        except ValueError:
            return False
        return any(bool(one.places) == bool(found.places) and one.error == found.error for one in left)

    return reduced(kernel, differs).text()


def tried(programs: Programs, seed: int, options: argparse.Namespace) -> list[Difference]:
    """Print and return the differences of one seed."""
    kernels = Generator(seed).kernels(options.kernels)
    wanted = [one for one in kernels if options.kernel in ("", one.name)]
    found = programs.differences(wanted, seed, options.arch, options.level)
    told = set()
    for one in found:
        print(one, flush=True)
        kernel = next((kernel for kernel in kernels if kernel.name == one.kernel), None)
        if options.reduce and kernel is not None and (one.arch, one.level) not in told:
            told.add((one.arch, one.level))
            print(smallest(programs, kernel, one), flush=True)
    return found


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="random_programs", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="kernels in all")
    parser.add_argument("--kernels", type=int, default=50, help="kernels in a translation unit, of one seed")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--kernel", default="", help="only this one of each seed, such as k7")
    parser.add_argument("--arch", nargs="+", default=list(ARCHS))
    parser.add_argument(
        "--level", nargs="+", default=["-O2", "-O3"], choices=LEVELS, type=lambda text: f"-{text.lstrip('-')}"
    )
    parser.add_argument("--library", type=Path, help="an emulator that is built already")
    parser.add_argument("--reduce", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ckwatch-random-") as name:
        folder = Path(name)
        toolchain = discover()
        library = options.library or anyio.run(build_library, folder, toolchain.clang)
        programs = Programs(toolchain, library, folder)
        differences, run = [], 0
        try:
            for seed in range(options.seed, options.seed + -(-options.count // options.kernels)):
                started = time.monotonic()
                differences += tried(programs, seed, options)
                run += options.kernels
                print(
                    f"seed {seed}: {time.monotonic() - started:.0f} s, {len(differences)} differences so far",
                    flush=True,
                )
        finally:
            programs.close()
    print(f"{run} kernels for {', '.join(options.arch)} at {', '.join(options.level)}: {len(differences)} differences")
    return int(bool(differences))


if __name__ == "__main__":
    raise SystemExit(main())
