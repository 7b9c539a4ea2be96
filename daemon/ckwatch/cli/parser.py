"""The commands and their options: a table in the order in which `--help` lists them.

What a command does is imported when it runs, so that starting stays quick.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import math
import re
import shlex
import sys
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from ckwatch.cli.ci.formats import FORMATS
from ckwatch.cli.completion import names
from ckwatch.cli.reports import FORMATS as OTHER_PROGRAMS
from ckwatch.model.emulated_archs import EMULATED_ARCHS
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch.model.targets import DEVICE
from ckwatch.model.verification import INSTRUCTION_LIMIT
from ckwatch.model.version import __version__


@dataclass(frozen=True, slots=True)
class Option:
    """An option or a word of a command, with the settings of argparse. `completes`: the names that a shell offers."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]
    completes: str = ""


class Alternatives:
    """Options that exclude each other."""

    def __init__(self, *options: Option) -> None:
        self.options = options


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or an action of one. `text` is its line in the list, `more` the rest of its description.

    `runs` is `MODULE:FUNCTION` of `ckwatch.cli` (default: `NAME:run`) or of the language server; imported when called.
    The function gets all options, or the value of the option `passing`. A command that has `actions` has no options.
    """

    name: str
    text: str
    options: tuple[Option | Alternatives, ...] = ()
    more: str = ""
    runs: str = ""
    passing: str = ""
    actions: tuple[Command, ...] = ()

    def run(self, options: argparse.Namespace) -> int:
        """The exit status."""
        module, _, function = (self.runs or f"{self.name}:run").partition(":")
        found = import_module(module if module.startswith("ckwatch_lsp.") else f"ckwatch.cli.{module}")
        status = getattr(found, function)(getattr(options, self.passing) if self.passing else options)
        return status if isinstance(status, int) else _awaited(status)


def _awaited(work: Coroutine[Any, Any, int]) -> int:
    import anyio  # takes longer to load than some commands need in all

    async def run() -> int:
        return await work

    return anyio.run(run)


def command(name: str, text: str, *options: Option | Alternatives, more: str = "", runs: str = "") -> Command:
    """A command with options."""
    return Command(name, text, options, more, runs)


def actions(name: str, text: str, *commands: Command) -> Command:
    """A command with actions, which run `NAME:ACTION` where they do not say another function."""
    return Command(name, text, actions=tuple(replace(one, runs=one.runs or f"{name}:{one.name}") for one in commands))


def value(name: str, metavar: str, text: str, **settings: Any) -> Option:
    """A word, or an option with a value."""
    return Option((name,), {"metavar": metavar, "help": text, **settings})


def several(name: str, metavar: str, text: str, **settings: Any) -> Option:
    """An option that may be repeated."""
    return value(name, metavar, text, action="append", default=[], **settings)


def with_toolchains(text: str) -> Option:
    """Names of toolchains."""
    return several("--toolchain", "NAME", f"{text}; may be repeated")


def choice(name: str, choices: Sequence[str], text: str, default: str | None = None) -> Option:
    """An option with one of these values."""
    return Option((name,), {"choices": choices, "default": default, "help": text})


def flag(name: str, text: str) -> Option:
    """An option without a value."""
    return Option((name,), {"action": "store_true", "help": text})


def named(kind: str, name: str, metavar: str, text: str, **settings: Any) -> Option:
    """A word or option that a shell completes with names of `kind`: units, kernels, templates, commands."""
    return Option((name,), {"metavar": metavar, "help": text, **settings}, kind)


def positive(text: str) -> int:
    """An integer above zero."""
    return _number(text, 1, math.inf, "a positive integer")


def amount(text: str) -> float:
    """An amount of money above zero, such as `2.50`."""
    value = float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,6})?", text, re.ASCII) else 0.0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not an amount above zero: write 2.50")
    return value


def part(text: str) -> float:
    """A number from 0 to 1, such as `0.02`."""
    value = float(text) if re.fullmatch(r"\d?\.?\d{1,18}", text, re.ASCII) else math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a number from 0 to 1")
    return value


def whole(text: str) -> int:
    """An integer that is not negative."""
    return _number(text, 0, math.inf, "a whole number")


def port(text: str) -> int:
    """A port that needs no privileges; 0 for any that is free."""
    return 0 if text == "0" else _number(text, 1024, 65535, "a port from 1024 to 65535")


def _number(text: str, least: int, most: float, what: str) -> int:
    """An integer of at most 18 digits."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not {what}")
    return number


def seconds(text: str) -> float:
    """A time such as `90s`, `20m`, `1.5h`, or seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text)
    value = float(found[1]) * {"m": 60, "min": 60, "h": 3600}.get(found[2], 1) if found else 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a time: write 90s, 20m or 2h")
    return value


def device(text: str) -> str:
    """A device, such as `hip:0`."""
    if re.fullmatch(DEVICE, text, re.ASCII) is None:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a device: write hip:0, cuda:0, cpu or HOST/hip:0")
    return text


class Once(argparse.Action):
    """Stores a value, and refuses a second one, where another command takes several."""

    def __call__(self, _: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *__: Any) -> None:
        """Store the value."""
        if getattr(namespace, self.dest) is not None:
            raise argparse.ArgumentError(self, "is given twice, and takes one value")
        setattr(namespace, self.dest, values)


def reports(formats: Iterable[str], **settings: Any) -> Option:
    """Reports in these formats, each `FORMAT` or `FORMAT=FILE`."""

    def place(text: str) -> tuple[str, Path | None]:
        name, _, path = text.partition("=")
        if name not in formats:
            raise argparse.ArgumentTypeError(f"there is no format '{name[:40]}'{_meant(name, formats)}")
        if "=" in text and not path:
            raise argparse.ArgumentTypeError(f"'{text[:40]}' names no file")
        return name, Path(path) if path else None

    what = f"write the report as FORMAT ({', '.join(formats)}) to FILE, or print it; may be repeated"
    return several("--report", "FORMAT[=FILE]", what, type=place, **settings)


FAILING = ("broken", "wrong", "spills", "slower", "worse", "unknown", "changed", "removed")

SHAPE = "a name in the kernel file, or sizes (M=64,N=64,K=128)"
SHAPE_LOG = "a trace of PyTorch's profiler, a log of hipblaslt-bench or rocblas-bench lines, CSV or JSON with M, N, K"
CODE_FILE = ".hsaco, .so, .o, .pt2 (AOT Inductor), an entry of Triton's cache, or a folder of these"
UNIT = "KERNEL/INSTANCE@ARCH, or enough of it to name one unit"

COMMON = (
    Option(
        ("-C", "--workspace"),
        {"type": Path, "metavar": "DIR", "help": "the workspace, or a folder in it (default: here)"},
    ),
    choice("--color", ("auto", "always", "never"), "when to use colors (default: auto)", "auto"),
)  # fmt: skip
"""Of all commands."""

WORDS = (
    "a folder, a kernel file, a template, or a pattern KERNEL, KERNEL/INSTANCE or KERNEL/INSTANCE@ARCH; quote "
    "wildcards, as in 'gemm_f16/*'"
)
PATTERNS = named("units", "words", "PATTERN", f"{WORDS} (default: all)", nargs="*")
ONE_UNIT, ONE_KERNEL = (
    named("units", "unit", "UNIT", UNIT),
    named("kernels", "kernel", "KERNEL", "the name of a kernel"),
)
JSON = flag("--json", "print JSON")
ARCHS = several("--arch", "ARCH", "compile for ARCH instead; may be repeated")
TRUST = flag("--trust", "trust the workspace: its templates and compiler flags are code that runs on this machine")
TRUSTED = Alternatives(TRUST, flag("--trust-once", "trust the workspace for this command alone; implies --no-daemon"))
DAEMON = (flag("--no-daemon", "work in this process, without the daemon"), TRUSTED)
ASKING = (JSON, *DAEMON)
JSON_LINES = flag("--json", "print one JSON object per line")
BUILD = (flag("--details", "print all notes and the compiler's own output"), ARCHS, *DAEMON)
ON_SHAPE = value("--shape", "SHAPE", f"only on this shape: {SHAPE}", action=Once)
PLOT = value("--plot", "FILE", "write a plot to FILE.svg or FILE.png", type=Path)
OF_ARCH = value("--arch", "ARCH", "an arch it is compiled for (default: the first)", dest="of_arch")
FILE_ARCH = value("--arch", "ARCH", "of a FILE: only its code for ARCH", dest="of_arch")
LAUNCHED = (value("--args", "FILE", "of a FILE: what its kernel takes and computes, in TOML", type=Path), FILE_ARCH)
BASELINE = value("name", "NAME", "the baseline's name")
PART = Option(
    ("part",),
    {
        "nargs": "?",
        "choices": ("all", "ck"),
        "help": "`ck`: only Composable Kernel's headers and instance lists, for a ROCm that lacks them "
        "(default: all, or nothing with --clangd, --clang-headers or --with)",
    },
)
REPLACING = (flag("--force", "replace files that are there"), JSON)
FAMILIES = ("gemm", "batched_gemm", "convolution")


def _choosing(expression: str, spelling: str) -> tuple[Option, ...]:
    """Options of what imports a list of instances."""
    holds = f"only instances for which it holds: NAME=VALUE, or an expression as '{expression}'; may be repeated"
    return (
        several("--filter", "FILTER", holds),
        named("templates", "--template", "TEMPLATE", f"for this template, {spelling} (default: the built-in)"),
        value("--output", "DIR", "where (default: `kernels` in the workspace)", type=Path),
        value("--limit", "N", "at most N instances of each operation, spread over its list", type=positive),
        *REPLACING,
    )


IMPORTS = (
    command(
        "ck4inductor",
        "Write kernel files with CK's own instances, from ck4inductor",
        value("family", "FAMILY", ", ".join(FAMILIES), choices=FAMILIES),
        *_choosing("m_per_block >= 128", "with Inductor's names of parameters or CK's, as it reads them"),
        runs="imports.ck4inductor:run",
    ),
    command(
        "aiter",
        "Write kernel files with AITER's instances, from one of its lists",
        value("file", "FILE", "a list, as gemm_a8w8_common.py; it is not run", type=Path),
        choice(
            "--gemm-spec",
            ("MNKPadding", "Default"),
            "for all sizes, or for those that a tile divides (default: MNKPadding; AITER builds both)",
            "MNKPadding",
        ),
        *_choosing("MPerBlock >= 128", "with CK's names of parameters"),
        runs="imports.aiter:run",
    ),
    command(
        "inductor",
        "Write a template, and a kernel file for it, from a Python file",
        value("file", "FILE", "Python source with a template string; it is not run", type=Path),
        value("--name", "NAME", "which string: ATTRIBUTE or CLASS.ATTRIBUTE"),
        value("--as", "NAME", "what to call both files (default: after FILE)", dest="called"),
        *REPLACING,
        runs="imports.inductor:run",
    ),
    command(
        "hip",
        "Write a kernel file and a template around kernels that stay in their file",
        value(
            "file", "FILE", "HIP source with `__global__` functions, .hip, .cu, .cuh or .h; it is not run", type=Path
        ),
        value("kernels", "KERNEL", "which of them: names, patterns or NAME:LINE (default: the only one)", nargs="*"),
        value(
            "--out", "DIR", "the workspace to add to or to make (default: the one around here, else here)", type=Path
        ),
        several("-I", "DIR", "a folder of headers that FILE includes; may be repeated", dest="include", type=Path),
        several("-D", "NAME[=VALUE]", "a macro that FILE is compiled with; may be repeated", dest="define"),
        value("-p", "PATH", "a compile_commands.json (default: the nearest)", dest="database", type=Path),
        several(
            "--set", "NAME=VALUE", "what FILE does not say: a template argument, sizes of a tensor; may be repeated"
        ),
        *REPLACING,
        runs="imports.hip:run",
    ),
    command(
        "cpp",
        "Write kernel files and templates for the device operations of a program of Composable Kernel",
        value("file", "FILE", "C++ source, as those of CK's examples; it is not run", type=Path),
        several("--operation", "NAME", "only this device operation, by its name in FILE; may be repeated"),
        value(
            "--out", "DIR", "the workspace to add to or to make (default: the one around here, else here)", type=Path
        ),
        several("-I", "DIR", "a folder of headers that FILE includes; may be repeated", dest="include", type=Path),
        several("-D", "NAME[=VALUE]", "a macro that FILE is compiled with; may be repeated", dest="define"),
        *REPLACING,
        runs="imports.cpp:run",
    ),
    command(
        "profile",
        "Show by lines what rocprofv3 or ncu saw on a device",
        value(
            "files",
            "FILE",
            "samples or counters as CSV or JSON, a rocpd database, a thread trace's code.json, ncu's report",
            type=Path,
            nargs="+",
        ),
        named("units", "--unit", "UNIT", "the kernel's unit: lines of its text are shown at its template, and kept"),
        value(
            "--shape",
            "SHAPE",
            "with --unit, the shape whose counts stand beside counters (default: the first)",
            action=Once,
        ),
        value("--top", "N", "list the first N lines", default=20, type=positive),
        *ASKING,
        runs="imports.profile:run",
    ),
    command(
        "timings",
        "Keep timings that others measured beside your own",
        value("files", "FILE", "AITER's *_tuned_gemm.csv, Kernel Tuner's cache or T4 file", type=Path, nargs="*"),
        choice("--format", ("aiter", "kernel-tuner"), "the file's format (default: by its content)"),
        value("--source", "TEXT", "the source of the timings, such as 'AITER e4048607'"),
        named("kernels", "--kernel", "KERNEL", "which kernel they are about, if FILE does not say it"),
        value("--device", "TEXT", "where they were measured, if FILE does not say it"),
        Alternatives(
            flag("--list", "list the files that timings were imported from"),
            flag("--remove", "drop what was imported from FILE"),
        ),
        *ASKING,
        runs="imports.timings:run",
    ),
)

STARTERS = tuple(
    Option((f"--{name.replace('_', '-')}",), {"action": "store_const", "const": name, "dest": "starter", "help": text})
    for name, text in (
        ("gemm", "with a GEMM of Composable Kernel (default)"),
        ("ck_tile", "with a GEMM of CK Tile"),
        ("hip", "with a kernel in plain HIP, and its reference in Python"),
        ("custom", "with a small HIP kernel, to put your own in its place"),
        ("cuda", "with a GEMM of CUTLASS"),
        ("cpp", "with a GEMM on the host"),
    )
)

WRITING = (
    command(
        "init",
        "Create a workspace with a kernel that works",
        value("folder", "DIR", "where (default: here)", nargs="?", type=Path),
        Alternatives(
            flag("--list", "list what a workspace can begin with"),
            *STARTERS,
            value("--from", "NAME", "with an example of --list", dest="example"),
            flag("--agents", "write AGENTS.md and a skill for coding agents into a workspace that is there"),
        ),
    ),
    command(
        "check",
        "Check kernels without compiling them",
        PATTERNS,
        Alternatives(JSON_LINES, reports(OTHER_PROGRAMS, dest="reports")),
        *BUILD,
        with_toolchains("have toolchain NAME analyze kernels, too; `all`: the workspace's own and each of `also`"),
        more="It reports every mistake that can be found without a compiler. Exit status 1 if there are errors.",
        runs="build_at_once:check",
    ),
    command("list", "List units and what is known of each", PATTERNS, *ASKING, runs="listing:run"),
    command(
        "watch",
        "Build what changes, and show units and errors live",
        PATTERNS,
        TRUST,
        flag("--no-build", "only show; request no builds"),
        flag("--json", "print every change as a JSON object on its own line"),
    ),
    command(
        "render",
        "Print or write the C++ that templates render to",
        named("units", "unit", "UNIT", f"{UNIT} (with --out, default: all)", nargs="?"),
        value("--out", "DIR", "write the text of each unit and compile_commands.json, for clangd", type=Path),
        flag("--map", "print where each piece of each line comes from"),
        flag("--json", "print text, map and the files that were read as JSON"),
        ARCHS,
        *DAEMON,
    ),
    actions("import", "Write kernel files and templates, or keep others' timings", *IMPORTS),
)

BUILDING = (
    command(
        "build",
        "Compile kernels; unchanged units come from the store",
        PATTERNS,
        JSON_LINES,
        *BUILD,
        flag("--header-warnings", "show warnings in headers too"),
        flag("--no-rules", "skip the instance rules; let the compiler find mistakes"),
        flag("--force", "compile even what is in the store"),
        with_toolchains("compile with toolchain NAME instead; `all`: the workspace's own and each of `also`"),
        value("--out", "DIR", "copy shared objects and code objects to DIR", type=Path),
        flag("--aot", "with --out: copy object files (.o) too"),
        flag("--runner", "with --out: write a program per unit that runs and verifies it"),
        more="Exit status 1 if a unit fails to compile.",
        runs="build_at_once:build",
    ),
    command(
        "bench",
        "Build kernels and time them on a device",
        PATTERNS,
        several("--shape", "SHAPE", f"time this shape: {SHAPE}; may be repeated"),
        value("--device", "DEVICE", "hip:N, cuda:N, cpu, a PCI address, HOST/hip:N, or auto", type=device),
        flag("--devices", "only list the devices"),
        flag("--force", "time units again that have a timing"),
        flag(
            "--flush-instructions",
            'empty the instruction caches before each launch, as `instruction_cache = "flush"` under [bench] does',
        ),
        flag(
            "--self-test",
            "try everything that timings on the device rest on, in about two minutes, and write a report; exit status "
            "1 if something does not hold",
        ),
        value("--output", "FILE", "where the report goes (default: ckwatch-self-test.md)", type=Path),
        *ASKING,
        more="Exit status 1 if a kernel fails, 2 if there is no device to time it on.",
    ),
    command(
        "verify",
        "Build kernels and see whether they are right, without a GPU",
        named("units", "words", "PATTERN|FILE", f"{WORDS} (default: all); or one file: {CODE_FILE}", nargs="*"),
        *LAUNCHED,
        value("--write-args", "FILE", "of a FILE: write such a description to begin with, and end", type=Path),
        several("--shape", "SHAPE", f"try this shape only: {SHAPE}, or one that --details prints; may be repeated"),
        flag("--details", "print every shape that was tried"),
        flag("--force", "execute again what was verified already"),
        flag("--allow-uncompared", "exit with 0 also where results were compared with nothing"),
        *ASKING,
        more="An emulator on this machine's processor runs what was compiled for gfx90a, gfx942, gfx950, gfx11 "
        "and gfx12: some forty shapes, with every access to memory checked. Exit status 1 if a kernel is wrong or does "
        "not build, 2 if it cannot be verified, 3 if all is right but for results without a reference to compare them "
        "with.",
    ),
    command(
        "judge",
        "Judge if a kernel may take another's place: right and faster",
        named("units", "candidate", "CANDIDATE", f"{UNIT}; or a file: {CODE_FILE}"),
        named("units", "--against", "REFERENCE", "the unit or file that says what is right", required=True),
        value("--args", "FILE", "of a FILE: what its kernel takes and computes, in TOML", type=Path),
        value("--against-args", "FILE", "the same of the other file (default: that of --args)", type=Path),
        FILE_ARCH,
        flag("--right-only", "do not ask whether it is faster"),
        value("--device", "DEVICE", "time both on DEVICE (default: one of their arch, if there is one)", type=device),
        value("--seed", "N", "draw what an earlier run has drawn (default: another each time)", type=whole),
        flag("--details", "print all there is on each reason"),
        *ASKING,
        more="Both are executed on an emulator, on shapes and inputs that are drawn when it runs. What is right is as "
        "the reference's kernel file says. Faster is by timings on a device, or else by predictions or counted "
        "instructions, and it says which. Exit status 1 if it is refused, 2 if nothing can be said.",
    ),
    command(
        "upgrade",
        "Show what another toolchain or Composable Kernel would change",
        PATTERNS,
        value("--to", "TOOLCHAIN", "an installed one, a ROCm tree, or a folder that holds ck/", required=True),
        flag("--no-verify", "compile and compare only, without the emulator"),
        Alternatives(
            flag("--json", "print one JSON object per line"),
            flag("--markdown", "print Markdown that fits a pull request's comment"),
        ),
        *DAEMON,
        more="Units are built with both toolchains, into the store and nowhere else. Exit status 1 if a unit no longer "
        "compiles, has a wrong result or spills more registers, 2 if one cannot be compared here.",
    ),
    command(
        "ci",
        "Compare what changed since a git commit with what it was",
        value(
            "paths",
            "PATH",
            "a file or folder: what depends on it is compared (default: all that differs from the base)",
            nargs="*",
        ),
        value(
            "--base",
            "REF",
            "compare with the merge base of HEAD and REF (default: the branch that a pipeline names, else the default "
            "branch)",
        ),
        Alternatives(reports(FORMATS), JSON),
        several(
            "--fail-on",
            "VERDICT",
            f"fail on this verdict ({', '.join(FAILING)}); may be repeated (default: broken, wrong and spills)",
            choices=FAILING,
        ),
        flag("--no-verify", "compile and compare only, without the emulator"),
        flag("--no-build", "check only, without a compiler"),
        flag("--profile", "also compare the instructions of a launch, counted on the emulator"),
        flag("--no-bench", "time nothing, also where there is a device"),
        value("--page", "DIR", "also write the views of `ckwatch web --export` into DIR", type=Path),
        value(
            "--device",
            "DEVICE",
            "time on DEVICE, and exit with 2 where it is not there (default: `[bench] device`)",
            type=device,
        ),
        ARCHS,
        TRUSTED,
        more="Both states are built, into the store and nowhere else; what is the same comes from there. Exit status 1 "
        "if a unit fails by its verdict or a file has a new mistake, 2 if one cannot be compared here.",
        runs="ci.command:run",
    ),
    command(
        "emulate",
        "Run a program that uses HIP without a GPU",
        choice("--arch", tuple(EMULATED_ARCHS), "which GPU (default: gfx942)", "gfx942"),
        value(
            "--instruction-limit",
            "N",
            "a workgroup of up to four waves that executes more has no end (default: %(default)s)",
            type=positive,
            default=INSTRUCTION_LIMIT,
        ),
        value(
            "--flags",
            "FLAGS",
            "of hipcc for a source file: --flags='-O1 -DN=16 -I../include' (default: -O3)",
            default="",
        ),
        flag("--print-command", "print how hipcc compiles and links the source file, and end"),
        value("program", "PROGRAM", "linked with libamdhip64, or loading it; or a source file (.hip, .cpp, …)"),
        value("arguments", "ARGUMENT", "of the program", nargs=argparse.REMAINDER),
        more="The program gets the emulator for an AMD GPU. A source file is compiled for --arch by the toolchain's "
        "hipcc, with line tables, and kept until it or what it includes changes. What is found in kernels is printed "
        "when the program has ended. Exit status: the program's, or 1 if that is 0 and there is a mistake in a kernel.",
    ),
    command(
        "tune",
        "Find the best instance of a kernel for each shape",
        ONE_KERNEL,
        several("--shape", "SHAPE", f"for this shape: {SHAPE}; kBatch=1/2/4 tries several; may be repeated"),
        value("--budget", "TIME", "end after 90s, 20m or 2h with the best so far", type=seconds),
        value("--spend", "MONEY", "end when so much is spent, at the --price of an hour", type=amount),
        value("--price", "MONEY", "what an hour on the devices costs, in the same currency", type=amount),
        value("--measurements", "N", "end after N measurements", type=positive),
        value(
            "--patience",
            "N",
            "end a shape's search when N instances have brought nothing (default: 40; 0: never)",
            type=whole,
            default=40,
        ),
        several(
            "--device",
            "DEVICE",
            "hip:N, cuda:N, cpu, a PCI address or HOST/hip:N, may be repeated; all: every one like the best "
            "(default: the best)",
        ),
        OF_ARCH,
        choice("--strategy", ("local", "random", "all"), "how to search (default: local)", "local"),
        value("--seed", "N", "seed of random choices (default: 0)", type=whole, default=0),
        value("--jobs", "N", "compiles at a time (default: the workspace's)", type=positive),
        flag("--no-racing", "time each instance to the end, however slow it is"),
        flag("--again", "forget what earlier runs have found"),
        flag("--write", "append the winners to the kernel file"),
        several("--export", "FILE", "write all results to FILE.csv or .json", type=Path),
        value("--aiter", "FILE", "write the best as AITER's tuned CSV", type=Path),
        value("--report", "FILE", "write a report to FILE.html", type=Path),
        *ASKING,
        more="Searches the instances of the kernel file and the points of its sweeps with `tune = true`, with as few "
        "compiles and measurements as possible. What is found is kept: a run that was ended or killed goes on where it "
        "was. Exit status 1 if there is a shape on which nothing could be timed.",
    ),
    command(
        "dispatch",
        "Write code that chooses an instance by the sizes of a call",
        ONE_KERNEL,
        several("--shapes", "LOG", SHAPE_LOG + "; may be repeated (default: the kernel file's shapes)", type=Path),
        choice("--by", ("predicted", "measured"), "which times decide (default: predicted)", "predicted"),
        value("--part", "PART", "predict for PART, such as MI300X (default: the fastest)", default=""),
        value("--device", "DEVICE", "with --by measured: by timings on this device, by name or PCI address"),
        OF_ARCH,
        value("--tolerance", "PART", "of the best time, that is given away (default: 0.02)", type=part, default=0.02),
        value("--top", "N", "only the N shapes that are called most (default: 1000)", type=positive),
        several("--out", "FILE", "write a C++ header (.hpp, .h) or a Python module (.py); may be repeated", type=Path),
        value("--aiter", "FILE", "write the choices as AITER's tuned CSV", type=Path),
        value("--hipblaslt", "FILE", "write them as CSV with the columns of hipblaslt-bench", type=Path),
        *ASKING,
        more="Takes the fewest instances of the kernel file of which one is within the tolerance on every shape, and "
        "grows a decision tree of sizes, which is checked on shapes that it has not seen.",
    ),
    actions(
        "shapes",
        "Take the shapes of GEMMs from logs and traces",
        command(
            "import",
            "Print the shapes of logs, and how often each was called",
            value("files", "LOG", SHAPE_LOG, nargs="+", type=Path),
            value("--top", "N", "only the N shapes that are called most", type=positive),
            value("--csv", "FILE", "write them as a log of M, N, K and count", type=Path),
            value("--toml", "FILE", "write them as [[shape]] tables of a kernel file", type=Path),
            JSON,
            runs="shapes:import_",
        ),
    ),
    command(
        "history",
        "Show the timings of a unit",
        ONE_UNIT,
        Option(("-n", "--limit"), {"type": positive, "default": 50, "metavar": "N", "help": "how many (default: 50)"}),
        ON_SHAPE,
        PLOT,
        *ASKING,
    ),
    command(
        "compare",
        "Compare the timings of two units, or of a unit and its past",
        named("units", "unit", "A", UNIT),
        named("units", "other", "B", "another unit, `previous` (its last build), `library` or `baseline[:NAME]`"),
        ON_SHAPE,
        *ASKING,
        more="The verdict is FAST, SLOW, SAME, or UNSURE where the timings cannot decide it.",
    ),
    command(
        "best",
        "Rank the instances of a kernel by time",
        ONE_KERNEL,
        choice("--cache", ("cold", "hot"), "by times with this cache (default: cold where known)"),
        choice("--chart", ("heat-map", "roofline"), "what --plot draws (default: heat-map)"),
        ON_SHAPE,
        PLOT,
        *ASKING,
        more="Instances without a timing say why.",
    ),
    actions(
        "baseline",
        "Name timings to compare later ones with",
        command("set", "Let NAME be the latest timings of units", *(BASELINE, PATTERNS, *ASKING), runs="baseline:set_"),
        command("list", "List the baselines", *ASKING, runs="baseline:list_"),
        command("remove", "Remove a baseline; its timings stay", *(BASELINE, *ASKING)),
    ),
    command(
        "export",
        "Write a unit as a Python module, or timings as JSON or CSV",
        named("units", "unit", "UNIT", f"{UNIT} (with --timings, default: all)", nargs="?"),
        value("--out", "PATH", "the module's folder (default: here), or a file", type=Path),
        value("--name", "NAME", "the module's name (default: after the unit)"),
        flag("--autotune", "UNIT is a kernel: its fastest instances, chosen by size at each call"),
        choice("--timings", ("json", "csv"), "write timings, to --out or standard output"),
        several("--shape", "SHAPE", f"with --autotune and --timings: only on this shape: {SHAPE}; may be repeated"),
        value("--device", "DEVICE", "with --autotune: by timings on this device, by name or PCI address"),
        flag("--samples", "with --timings json: raw samples, clocks, versions too"),
        flag("--json", "print the paths of the module's files as JSON"),
        ARCHS,
        *DAEMON,
        runs="export.command:run",
    ),
)

LOOKING = (
    command(
        "explain",
        "Explain why a unit is in its state, or a diagnostic's code",
        named("units", "unit", "UNIT|CODE", f"{UNIT}; or a diagnostic's code, such as rule/m-per-block"),
        JSON,
        flag("--time", "compile it, and show where the compile time goes"),
        value("--trace", "FILE", "like --time, and write clang's trace to FILE for chrome://tracing", type=Path),
        ARCHS,
        *DAEMON,
        more="Exit status 1 if the unit has errors.",
    ),
    command(
        "audit",
        "Find rows of AITER's tuned tables that are wrong",
        value("files", "FILE", "tables, as aiter/configs/*_tuned_gemm.csv", nargs="+", type=Path),
        value(
            "--registry",
            "DIR",
            "the checkout of AITER whose kernels they name (default: around FILE, or installed)",
            type=Path,
        ),
        value("--part", "PART", "report rows for other parts than this: MI300X, gfx942:304"),
        flag("--advice", "show advice too: rows that take longer than larger ones"),
        Alternatives(
            flag("--build", "compile a sample of the rows"),
            flag("--verify", "compile a sample, and compare it with a reference at its shapes, on an emulator"),
        ),
        value("--sample", "N", "how many rows to build (default: 5)", type=positive),
        value("--seed", "N", "which ones (default: 0)", type=whole),
        JSON,
        more="Exit status 1 if a row has errors. No compiler is needed but for --build and --verify.",
    ),
    command(
        "inspect",
        "Show a code object's registers, occupancy, main loop and bounds",
        named("units", "unit", "UNIT|FILE", f"{UNIT}; or {CODE_FILE}", nargs="?"),
        flag("--isa", "print the instructions with source lines, the loop open"),
        value(
            "--kernel", "NAME", "--isa of this kernel of the unit (default: the main one); of a FILE: only this kernel"
        ),
        FILE_ARCH,
        flag("--whole", "--isa with nothing folded"),
        flag("--no-lines", "--isa without the compile that source lines need"),
        flag("--calibration", "show how far predictions are off, over all fresh timings"),
        *ASKING,
        more="No GPU is needed.",
        runs="inspect:inspect",
    ),
    command(
        "profile",
        "Show where a kernel's work goes, line by line",
        named("units", "unit", "UNIT|FILE", f"{UNIT}; or {CODE_FILE}"),
        *LAUNCHED,
        value(
            "--shape",
            "SHAPE",
            "execute it on SHAPE: a name, or sizes (M=64,N=64,K=128) (default: the first)",
            action=Once,
        ),
        value(
            "--device",
            "DEVICE",
            "sample it on DEVICE (hip:0, cuda:0) with its vendor's profiler, rocprofv3 or ncu",
            type=device,
        ),
        value(
            "--by",
            "WHAT",
            "what to list: line, instruction, loop or function",
            default="line",
            choices=("line", "instruction", "loop", "function"),
        ),
        named(
            "units",
            "--against",
            "UNIT",
            "also show what is different from UNIT: another instance, or `previous`, `baseline` or `baseline:NAME`",
        ),
        value("--top", "N", "list the first N", default=20, type=positive),
        value("--speedscope", "FILE", "write the stacks of functions to FILE for speedscope", type=Path),
        value("--pprof", "FILE", "write them to FILE for pprof", type=Path),
        flag("--no-lines", "of a UNIT: leave out the compile that source lines need"),
        *ASKING,
        more="Without --device instructions are counted on an emulator: counts are exact, and no times.",
        runs="profile:profile",
    ),
    command(
        "rank",
        "Rank instances by predicted time, or code objects, without a GPU",
        named("kernels", "kernels", "KERNEL|FILE", f"the name of a kernel; or files: {CODE_FILE}", nargs="+"),
        value("--shape", "SHAPE", f"of a KERNEL: {SHAPE} (default: the first)", action=Once),
        value("--kernel", "NAME", "of a FILE: only this kernel; a pattern for several"),
        OF_ARCH,
        value("--part", "PART", "predict for PART, such as MI300X (default: the fastest)", default=""),
        *ASKING,
        runs="inspect:rank",
    ),
)

RUNNING = (
    command(
        "start",
        "Start the workspace's daemon",
        flag("--foreground", "run it here until Ctrl-C, with its log on stderr"),
        TRUST,
        more="Other commands start it when they need it.",
        runs="daemon:start",
    ),
    command(
        "stop",
        "Stop the daemon",
        more="It waits until the daemon has ended, and kills one that hangs.",
        runs="daemon:stop",
    ),
    command("restart", "Stop the daemon and start it again", TRUST, runs="daemon:restart"),
    command(
        "status", "Show what the daemon does", JSON, more="Exit status 3 if it is not running.", runs="daemon:status"
    ),
    command(
        "cancel",
        "End what the daemon compiles, times and verifies",
        *(PATTERNS, JSON),
        more="It stays cancelled until it is edited, or a command asks for it.",
    ),
    command(
        "logs",
        "Print the end of the daemon's log",
        Option(("-f", "--follow"), {"action": "store_true", "help": "print what is added, until Ctrl-C"}),
        Option(
            ("-n", "--lines"),
            {"type": positive, "default": 100, "metavar": "N", "help": "how many lines (default: 100)"},
        ),
    ),
    command(
        "mcp",
        "Serve the workspace to assistants, by the Model Context Protocol",
        flag("--allow-changes", "let an assistant write its edits to disk"),
        value("--compiles", "N", "compile at most N units (default: 200)", default=200, type=whole),
        value("--verifications", "N", "verify at most N units (default: 200)", default=200, type=whole),
        value("--time", "TIME", "end tools after 90s, 20m or 2h of work (default: 2h)", default=7200.0, type=seconds),
        TRUST,
        more="It speaks the protocol on standard input and output; assistants start it.",
        runs="mcp.command:run",
    ),
    Command(
        "lsp",
        "Run the language server",
        (
            flag("--stdio", "accepted for editors; it is the only transport"),
            value("--resume", "FD", "the state that a replaced server hands over", type=int),
        ),
        "It speaks the Language Server Protocol on standard input and output; editors start it.",
        runs="ckwatch_lsp.main:main",
        passing="resume",
    ),
    command(
        "web",
        "Open a page that shows what is fast and what changed",
        PATTERNS,
        value("--export", "DIR", "write the views of these units into DIR as HTML", type=Path),
        flag("--traces", "--export with where the compile time and the work of each unit go"),
        flag("--allow-changes", "let the page build, time, verify, tune and cancel"),
        value("--port", "PORT", "on this port (default: any that is free)", type=port, default=0),
        flag("--no-open", "print the address and open no browser"),
        flag("--share", "print how to see the page on another machine, through ssh"),
        TRUSTED,
        more="It is served on loopback alone, until Ctrl-C, and needs the extra `web`.",
    ),
)

ENVIRONMENT = (
    actions(
        "farm",
        "Compile and time on other machines, through dask.distributed",
        command("up", "Start the scheduler and the workers of [farm] cluster", TRUST),
        command("status", "Show the workers, what they can do and what they do", JSON),
        command("down", "End the scheduler and its workers"),
        command(
            "certificates",
            "Make certificates, and say what to copy where",
            value("names", "MACHINE", "also a folder to copy to this machine", nargs="*"),
        ),
    ),
    command(
        "doctor",
        "Check the installation and say how to fix it",
        JSON,
        flag("--smoke", "compile a small kernel too"),
        flag("--quiet", "print nothing; only set the exit status"),
        more="Exit status 2 if something that is needed is missing.",
        runs="toolchain:doctor",
    ),
    actions(
        "toolchain",
        "Install, list or remove private toolchains",
        command(
            "install",
            "Install ROCm and Composable Kernel into your cache folder",
            PART,
            value(
                "--rocm",
                "VERSION",
                "install this ROCm beside the one in use, from the suite of Debian that has it, such as 6.4",
            ),
            value("--clang", "N", "with this version of clang instead of the one that hipcc uses", type=int),
            value("--ck", "VERSION", "install this Composable Kernel, such as 1.1.0"),
            flag(
                "--clangd", "fetch the clangd that answers questions about C++ in templates, of the compiler's version"
            ),
            flag(
                "--clang-headers",
                "fetch the C++ headers of the compiler's clang alone, with which edits of an instance compile faster",
            ),
            flag("--no-clang-headers", "do not fetch these 80 MB, as in CI"),
            several(
                "--with",
                "NAMES",
                "fetch the headers of ROCm's libraries beside the toolchain, such as rocprim,hipcub,rocwmma; "
                "`all` for every one",
                dest="libraries",
            ),
            value("--mirror", "URL", "a Debian mirror (default: the one apt is configured with)"),
            flag("--force", "install again even if one is installed"),
            flag("--quiet", "no progress bar"),
        ),
        command("list", "List the installed toolchains", runs="toolchain:list_installed"),
        command(
            "remove", "Remove an installed toolchain", value("name", "NAME", "its name in `ckwatch toolchain list`")
        ),
    ),
    actions(
        "templates",
        "List templates, or copy one to change it",
        command(
            "list",
            "List templates",
            flag("--all", "also those that only other templates include"),
            JSON,
            runs="templates:list_",
        ),
        command(
            "copy",
            "Copy a template into the workspace, where it is used instead",
            named("templates", "name", "NAME", "its name in `ckwatch templates list`"),
            value("target", "NEW", "another name for the copy (default: the same)", nargs="?"),
        ),
    ),
    actions(
        "store",
        "Show what the store of artifacts takes, or make it smaller",
        command("size", "Show what the store takes", JSON),
        command(
            "gc",
            "Remove what was unused for longest, down to the size limit",
            value("--limit", "SIZE", 'down to this size instead, as in "5 GiB"'),
            JSON,
            runs="store:collect_garbage",
        ),
    ),
    command(
        "schema",
        "Print the JSON Schema of what --json prints",
        named("commands", "words", "COMMAND", "a command, and its action if it has some", nargs="*"),
        more="Without COMMAND, one document with a definition for each command.",
    ),
    command(
        "completion",
        "Print what makes a shell complete commands and units",
        value("shell", "SHELL", "bash, zsh, fish or tcsh", choices=("bash", "zsh", "fish", "tcsh")),
        more='For bash or zsh: eval "$(ckwatch completion bash)" in its start-up file.',
    ),
    command(
        "trust",
        "Trust a workspace, or a folder of workspaces, to run its code",
        value("folder", "DIR", "which (default: the workspace here)", nargs="?", type=Path),
        Alternatives(
            flag("--list", "list the trusted folders"),
            flag("--remove", "no longer trust DIR"),
            flag("--shared", "trust DIR even though others can write to it"),
        ),
    ),
)

GROUPS: Mapping[str, tuple[Command, ...]] = {
    "Write and check": WRITING,
    "Build and measure": BUILDING,
    "Look into a unit": LOOKING,
    "Daemon and editors": RUNNING,
    "Environment": ENVIRONMENT,
}
"""All commands by task."""


EMPTY = "the value is empty; is a variable of the shell not set?"
"""An empty pattern would mean all units, an empty path the working directory."""


class CommandParser(argparse.ArgumentParser):
    """Says which command, action, choice or option was probably meant."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        self.set_defaults(parser=self)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        others_follow = action.nargs in (argparse.PARSER, argparse.REMAINDER)
        if "" in arg_strings and not others_follow and action.dest != "flags":
            raise argparse.ArgumentError(action, EMPTY)
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        if choices is not None and value not in choices:
            what = "there is no command" if isinstance(action, argparse._SubParsersAction) else "invalid choice:"
            raise argparse.ArgumentError(action, f"{what} '{value}'{_meant(value, choices)}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The options and what nothing takes; an unknown option comes before a missing argument."""
        words = sys.argv[1:] if args is None else [*args]
        others_follow = any(action.nargs in (argparse.PARSER, argparse.REMAINDER) for action in self._actions)
        own = itertools.takewhile(lambda word: word != "--" and not (others_follow and word[:1] != "-"), words)
        for before, word in itertools.pairwise(itertools.chain([""], own)):
            if word[:1] == "-" and not self._knows(word):
                wants = self._option_string_actions.get(before)
                if wants is not None and wants.nargs is None:
                    self.error(f"a value that begins with - is joined: {before}={shlex.quote(word)}")
                self.refuse([word])
        return super().parse_known_args(args, namespace)

    def _knows(self, word: str) -> bool:
        """Tell whether `word` is an option, or is no attempt at one: `-`, a negative number, a text with blanks."""
        known = self._option_string_actions
        is_value = word == "-" or " " in word or self._negative_number_matcher.match(word)
        return bool(is_value) or word.partition("=")[0] in known or (word[1] != "-" and word[:2] in known)

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """End with the arguments that nothing takes."""
        options = [name for action in self._actions for name in action.option_strings]
        word = next((word for word in words if word.startswith("-")), words[0]).partition("=")[0]
        if word.startswith("-"):
            where = "" if self._subparsers is None else "; options of a command follow it"
            self.error(f"there is no option {word}{_meant(word, options)}{where}")
        self.error(f"unexpected arguments: {' '.join(words)}")

    def take(self, one: Command) -> None:
        """Parse the options of a command, or those of its actions."""
        if one.actions:
            actions = self.add_subparsers(
                dest="action", required=True, metavar="ACTION", title="actions", parser_class=CommandParser
            )
            for action in one.actions:
                actions.add_parser(action.name, help=action.text, description=f"{action.text}.").take(action)
            return
        for option in (*COMMON, *one.options):
            if isinstance(option, Alternatives):
                exclusive = self.add_mutually_exclusive_group()
                for alternative in option.options:
                    exclusive.add_argument(*alternative.names, **alternative.settings)
                continue
            added = self.add_argument(*option.names, **option.settings)
            if option.completes:
                added.completer = names(option.completes)  # type: ignore[attr-defined]  # where argcomplete looks for it
        words = (name for option in one.options if isinstance(option, Option) for name in option.names)
        self.own_options = {word for word in words if word[0] == "-"}
        self.set_defaults(run=one.run)


def _meant(word: str, names: Iterable[str]) -> str:
    known = list(names)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"; did you mean '{near[0]}'?" if near else f" (there are: {', '.join(known)})"


class ProgramParser(CommandParser):
    """The parser of the whole command line. Its help lists the commands by task."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The options; ends with what is wrong with them."""
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            options.parser.refuse(rest)
        return options

    def format_help(self) -> str:
        """The usage, the commands of each group, and the options."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, commands in GROUPS.items():
            formatter.start_section(title)
            for one in commands:
                formatter.add_argument(argparse.Action([], "command", metavar=one.name, help=one.text))
            formatter.end_section()
        formatter.start_section("Options")
        formatter.add_arguments(action for action in self._actions if action.option_strings)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def parser_for(arguments: Sequence[str]) -> ProgramParser:
    """The parser of a command line: of its command alone, where that comes first."""
    return make_parser(arguments[0] if arguments else None)


def make_parser(only: str | None = None) -> ProgramParser:
    """The parser of the whole command line, or of `only` one command, if there is one: the others' take their time."""
    parser = ProgramParser(
        prog="ckwatch",
        description="Check, compile and time Composable Kernel templates.",
        epilog="`ckwatch COMMAND --help` describes a command and its options.",
    )
    parser.add_argument("--version", action="version", version=f"ckwatch {__version__}", help="print the version")
    known = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    commands = [one for group in GROUPS.values() for one in group]
    for one in [one for one in commands if one.name == only] or commands:
        known.add_parser(one.name, description=f"{one.text}. {one.more}".rstrip()).take(one)
    return parser
