"""Commands and their options. What a command does is imported when it runs, so that starting stays quick."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ckwatch.model.version import __version__

WORDS_HELP = "a folder, a kernel file, or a pattern: KERNEL, KERNEL/INSTANCE or KERNEL/INSTANCE@ARCH (default: all)"
TRUST_HELP = "trust the workspace: its templates and compiler flags are code that runs here"
UNIT_HELP = "KERNEL/INSTANCE@ARCH, or what is enough of it to name one unit"


def command(path: str) -> Callable[[argparse.Namespace], int]:
    """`module:function`, imported when called."""

    def run(options: argparse.Namespace) -> int:
        module, _, function = path.partition(":")
        # Nothing that an import makes is garbage; collecting meanwhile takes a tenth of the time.
        gc.disable()
        try:
            command_module = import_module(f"ckwatch.cli.{module}")
        finally:
            gc.enable()
        status: int = getattr(command_module, function)(options)
        return status

    return run


def positive(text: str) -> int:
    """An integer above zero."""
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above zero")
    return value


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="ckwatch",
        description="Compile Composable Kernel templates, with every message at its place.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ckwatch {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument(
        "-C", "--workspace", type=Path, metavar="DIR", help="the workspace, or a folder in it (default: here)"
    )
    common.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="colours (default: auto)")

    def add(name: str, run: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text, parents=[common], allow_abbrev=False)
        sub.set_defaults(run=command(run))
        return sub

    def add_archs(sub: argparse.ArgumentParser) -> None:
        sub.add_argument(
            "--arch", action="append", default=[], metavar="ARCH", help="compile for ARCH instead; may be repeated"
        )

    def add_daemon(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--no-daemon", action="store_true", help="work in this process, without the daemon")
        sub.add_argument("--trust", action="store_true", help=TRUST_HELP)

    init = add("init", "init:run", "Write a workspace that works.")
    init.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="where (default: here)")

    doctor = add("doctor", "toolchain:doctor", "Say what is installed, what is missing, and what mends it.")
    doctor.add_argument("--json", action="store_true", help="print the report as JSON")
    doctor.add_argument("--smoke", action="store_true", help="compile a small kernel as well")
    doctor.add_argument("--quiet", action="store_true", help="print nothing; the exit status tells")

    _add_toolchain(commands, common)

    render = add("render", "render:run", "Print the C++ text of a unit.")
    render.add_argument("unit", metavar="UNIT", help=UNIT_HELP)
    render.add_argument("--map", action="store_true", help="print where each piece of each line came from")
    render.add_argument("--json", action="store_true", help="print text, map and files read as JSON")
    add_archs(render)
    add_daemon(render)

    check = add("check", "build:check", "Report every mistake that shows without a compiler, in milliseconds.")
    build = add("build", "build:build", "Compile kernels; unchanged ones come from the store.")
    for sub in (check, build):
        sub.add_argument("words", nargs="*", metavar="KERNEL", help=WORDS_HELP)
        sub.add_argument("--json", action="store_true", help="print one JSON object per line")
        sub.add_argument("--details", action="store_true", help="print the compiler's own words and every note")
        add_archs(sub)
        add_daemon(sub)
    build.add_argument("--header-warnings", action="store_true", help="show warnings that lie in headers")
    build.add_argument("--no-rules", action="store_true", help="leave bad instances to the compiler")
    build.add_argument("--force", action="store_true", help="compile even what the store has")
    build.add_argument("--out", type=Path, metavar="DIR", help="copy shared objects and code objects to DIR")
    build.add_argument("--aot", action="store_true", help="with --out: the object files (.o) too")
    build.add_argument("--runner", action="store_true", help="with --out: a program per unit that runs and verifies it")

    explain = add("explain", "explain:run", "Say why a unit is in its state: what it depends on, and what is stored.")
    explain.add_argument("unit", metavar="UNIT", help=UNIT_HELP)
    explain.add_argument("--json", action="store_true", help="print it as JSON")
    explain.add_argument("--time", action="store_true", help="compile it, and say where the compile time goes")
    explain.add_argument(
        "--trace", type=Path, metavar="FILE", help="--time, and write clang's trace to FILE, for chrome://tracing"
    )
    add_archs(explain)
    add_daemon(explain)

    _add_benchmarks(add, add_daemon)
    _add_baseline(commands, common, add_daemon)
    export = add("export", "export.command:run", "Write a unit as a Python module, or timings as JSON or CSV.")
    export.add_argument("unit", nargs="?", metavar="UNIT", help=f"{UNIT_HELP} (with --timings: default all)")
    export.add_argument("--out", type=Path, metavar="PATH", help="the module's folder (default: here), or a file")
    export.add_argument("--name", metavar="NAME", help="what the module is called (default: after the unit)")
    export.add_argument("--timings", choices=("json", "csv"), help="write what was measured, to --out or stdout")
    export.add_argument("--shape", metavar="SHAPE", help="with --timings: on this shape only")
    export.add_argument("--samples", action="store_true", help="with --timings json: raw samples, clocks, versions too")
    export.add_argument("--json", action="store_true", help="tell what the module's files are as JSON")
    add_archs(export)
    add_daemon(export)

    _add_analysis(add, add_daemon)
    _add_daemon(add)
    return parser


Add = Callable[[str, str, str], argparse.ArgumentParser]
AddOptions = Callable[[argparse.ArgumentParser], None]


def _add_analysis(add: Add, add_daemon: AddOptions) -> None:
    """Performance without a GPU."""
    inspect = add(
        "inspect", "inspect:inspect", "Say what a unit's code object tells: resources, occupancy, main loop, bounds."
    )
    inspect.add_argument("unit", nargs="?", metavar="UNIT", help=UNIT_HELP)
    inspect.add_argument("--isa", action="store_true", help="show the instructions with source lines, the loop open")
    inspect.add_argument("--kernel", metavar="NAME", help="--isa of this kernel of the unit, not of the main one")
    inspect.add_argument("--whole", action="store_true", help="--isa with everything open")
    inspect.add_argument("--no-lines", action="store_true", help="--isa without a compile for source lines")
    inspect.add_argument("--calibration", action="store_true", help="how far predictions were off, over all timings")
    rank = add("rank", "inspect:rank", "Order a kernel's compiled instances by predicted time, without a GPU.")
    rank.add_argument("kernel", metavar="KERNEL", help="the name of a kernel")
    rank.add_argument("--shape", required=True, metavar="SHAPE", help="a shape of its kernel file")
    rank.add_argument("--arch", dest="of_arch", metavar="ARCH", help="one that it is compiled for (default: the first)")
    rank.add_argument(
        "--part", default="", metavar="PART", help="predict for PART, such as MI300X (default: the fastest)"
    )
    for sub in (inspect, rank):
        sub.set_defaults(arch=[])
        sub.add_argument("--json", action="store_true", help="print it as JSON")
        add_daemon(sub)


def _add_benchmarks(add: Add, add_daemon: AddOptions) -> None:
    """Timing units, and looking at timings."""
    bench = add("bench", "bench:run", "Build kernels and time them. Exit status 2 when there is nothing to time on.")
    bench.add_argument("words", nargs="*", metavar="KERNEL", help=WORDS_HELP)
    bench.add_argument(
        "--shape", action="append", default=[], metavar="SHAPE", help="on this shape only; may be repeated"
    )
    bench.add_argument("--device", metavar="DEVICE", help="hip:N, cuda:N, cpu, a PCI address, or auto")
    bench.add_argument("--devices", action="store_true", help="only list what there is to time on")
    bench.add_argument("--force", action="store_true", help="measure even what has a timing")

    history = add("history", "history:run", "Show what was measured of a unit.")
    history.add_argument("unit", metavar="UNIT", help=UNIT_HELP)
    history.add_argument("-n", "--limit", type=positive, default=50, metavar="N", help="how many (default: 50)")

    compare = add("compare", "compare:run", "Say which of two is faster, or that it cannot be said.")
    compare.add_argument("unit", metavar="A", help=UNIT_HELP)
    compare.add_argument(
        "other", metavar="B", help="another unit, `previous` (its artifact before), `library`, `baseline[:NAME]`"
    )

    best = add("best", "best:run", "Rank the instances of a kernel, and say why others have no place.")
    best.add_argument("kernel", metavar="KERNEL", help="the name of a kernel")
    best.add_argument("--chart", choices=("heat-map", "roofline"), help="what --plot draws (default: heat-map)")

    for sub in (history, compare, best):
        sub.add_argument("--shape", metavar="SHAPE", help="on this shape only")
    for sub in (history, best):
        sub.add_argument("--plot", type=Path, metavar="FILE", help="draw it to FILE.svg or FILE.png, by matplotlib")
    for sub in (bench, history, compare, best):
        sub.add_argument("--json", action="store_true", help="print it as JSON")
        sub.set_defaults(arch=[])
        add_daemon(sub)


def _add_baseline(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    common: argparse.ArgumentParser,
    add_daemon: AddOptions,
) -> None:
    text = "Name timings that later ones are compared with."
    baseline = commands.add_parser("baseline", help=text, description=text, allow_abbrev=False)
    actions = baseline.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, run, help_text in (
        ("set", "baseline:set_", "Let NAME mean the latest timings of units."),
        ("list", "baseline:list_", "List baselines."),
        ("remove", "baseline:remove", "Let NAME mean nothing any more; the timings stay."),
    ):
        sub = actions.add_parser(name, help=help_text, description=help_text, parents=[common], allow_abbrev=False)
        if name != "list":
            sub.add_argument("name", metavar="NAME", help="the baseline's name")
        if name == "set":
            sub.add_argument("words", nargs="*", metavar="KERNEL", help=WORDS_HELP)
        sub.add_argument("--json", action="store_true", help="print it as JSON")
        sub.set_defaults(run=command(run), arch=[])
        add_daemon(sub)


def _add_daemon(add: Add) -> None:
    """The daemon's life, and what looks at it."""
    start = add("start", "daemon:start", "Start the workspace's daemon; other commands start it where they need it.")
    start.add_argument("--foreground", action="store_true", help="run it here, until Ctrl-C, with its log on stderr")
    start.add_argument("--trust", action="store_true", help=TRUST_HELP)
    add("stop", "daemon:stop", "End the daemon, also one that hangs, and wait until it has ended.")
    restart = add("restart", "daemon:restart", "Stop the daemon and start it again.")
    restart.add_argument("--trust", action="store_true", help=TRUST_HELP)
    status = add("status", "daemon:status", "Say what the daemon does. Exit status 3 when it does not run.")
    status.add_argument("--json", action="store_true", help="print it as JSON")
    logs = add("logs", "logs:run", "Print the end of the daemon's log.")
    logs.add_argument("-f", "--follow", action="store_true", help="go on with what is added, until Ctrl-C")
    logs.add_argument("-n", "--lines", type=positive, default=100, metavar="N", help="how many lines (default: 100)")

    watch = add("watch", "watch:run", "Show units and errors as they change, and build what changes.")
    watch.add_argument("words", nargs="*", metavar="KERNEL", help=WORDS_HELP)
    watch.add_argument("--trust", action="store_true", help=TRUST_HELP)
    watch.add_argument("--no-build", action="store_true", help="only look; ask for nothing to be built")
    watch.add_argument("--json", action="store_true", help="print every change as a JSON object on its own line")

    lsp = add("lsp", "lsp:run", "Serve an editor: the Language Server Protocol on standard input and output.")
    lsp.add_argument("--stdio", action="store_true", help="as editors say it; there is no other way")
    lsp.add_argument("--resume", type=int, metavar="FD", help="what a server passes on to the version that replaces it")

    trust = add("trust", "trust:run", "Trust a workspace, or a folder of workspaces, to run code here.")
    trust.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="which (default: the workspace here)")
    what = trust.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="print what is trusted")
    what.add_argument("--remove", action="store_true", help="trust DIR no longer")
    what.add_argument("--shared", action="store_true", help="trust DIR even though others can write to it")


def _add_toolchain(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    text = "Install, list or remove private toolchains."
    toolchain = commands.add_parser("toolchain", help=text, description=text, allow_abbrev=False)
    actions = toolchain.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(name: str, run: str, help_text: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=help_text, description=help_text, parents=[common], allow_abbrev=False)
        sub.set_defaults(run=command(run))
        return sub

    install = add("install", "toolchain:install", "Install ROCm and Composable Kernel into the user's cache folder.")
    install.add_argument("--mirror", metavar="URL", help="a Debian mirror (default: the one apt is configured with)")
    install.add_argument("--force", action="store_true", help="install again even when one is there")
    install.add_argument("--quiet", action="store_true", help="no progress bar")
    add("list", "toolchain:list_installed", "List installed toolchains.")
    remove = add("remove", "toolchain:remove", "Remove an installed toolchain.")
    remove.add_argument("name", metavar="NAME", help="as `ckwatch toolchain list` shows it")
