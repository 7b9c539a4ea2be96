"""The commands and their options. What a command does is imported when it runs, so that starting stays quick."""

from __future__ import annotations

import argparse
import difflib
import gc
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, cast

from ckwatch.cli.completion import names
from ckwatch.model.emulated_archs import EMULATED_ARCHS
from ckwatch.model.verification import INSTRUCTION_LIMIT
from ckwatch.model.version import __version__

PATTERNS_HELP = (
    "a folder, a kernel file, a template, or a pattern KERNEL, KERNEL/INSTANCE or KERNEL/INSTANCE@ARCH; quote "
    "wildcards, as in 'gemm_f16/*' (default: all)"
)
TRUST_HELP = "trust the workspace: its templates and compiler flags are code that runs on this machine"
SHAPE_HELP = "a name in the kernel file, or sizes (M=64,N=64,K=128)"
UNIT_HELP = "KERNEL/INSTANCE@ARCH, or enough of it to name one unit"

Run = Callable[[argparse.Namespace], int]


def command(path: str, *, passing: str | None = None) -> Run:
    """`module:function` of ckwatch.cli, or of the language server; imported when called.

    The function gets all options, or the value of the option `passing`.
    """

    def run(options: argparse.Namespace) -> int:
        module, _, function = path.partition(":")
        # Nothing that an import makes is garbage; collecting meanwhile takes a tenth of the time.
        gc.disable()
        try:
            command_module = import_module(module if module.startswith("ckwatch_lsp.") else f"ckwatch.cli.{module}")
        finally:
            gc.enable()
        status: int = getattr(command_module, function)(options if passing is None else getattr(options, passing))
        return status

    return run


def positive(text: str) -> int:
    """An integer above zero."""
    value = _number(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a positive integer")
    return value


def whole(text: str) -> int:
    """An integer that is not negative."""
    value = _number(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a whole number")
    return value


def _number(text: str) -> int:
    """An integer that is not negative; -1 for anything else, and for one of more than 18 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1


def port(text: str) -> int:
    """A port that needs no privileges; 0 for any that is free."""
    value = _number(text)
    if value != 0 and not 1024 <= value <= 65535:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a port from 1024 to 65535")
    return value


def seconds(text: str) -> float:
    """A time such as `90s`, `20m`, `1.5h`, or seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", text)
    value = float(found[1]) * {"m": 60, "min": 60, "h": 3600}.get(found[2], 1) if found else 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is not a time: write 90s, 20m or 2h")
    return value


class _SuggestingParser(argparse.ArgumentParser):
    """Says which command, action, choice or option was probably meant."""

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
        for word in own:
            if word[:1] == "-" and not self._knows(word):
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


def _meant(word: str, names: Iterable[str]) -> str:
    known = list(names)
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"; did you mean '{near[0]}'?" if near else f" (there are: {', '.join(known)})"


class CommandParser(_SuggestingParser):
    """The parser of one command, and the options that several commands have."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)
        self.set_defaults(parser=self)

    def add_common(self) -> None:
        """Add the options for the folder and for colours."""
        self.add_argument(
            "-C", "--workspace", type=Path, metavar="DIR", help="the workspace, or a folder in it (default: here)"
        )
        self.add_argument(
            "--color", choices=("auto", "always", "never"), default="auto", help="when to use colors (default: auto)"
        )

    def add_patterns(self) -> None:
        """Which units; none for all."""
        self.add_name("units", "words", nargs="*", metavar="PATTERN", help=PATTERNS_HELP)

    def add_name(self, kind: str, name: str, **settings: Any) -> None:
        """An argument that a shell completes with names of `kind`: units, kernels, templates."""
        action = self.add_argument(name, **settings)
        action.completer = names(kind)  # type: ignore[attr-defined]  # where argcomplete looks for it

    def add_json(self, text: str = "print JSON") -> None:
        """For programs."""
        self.add_argument("--json", action="store_true", help=text)

    def add_archs(self) -> None:
        """Other archs than the workspace's."""
        self.add_argument(
            "--arch", action="append", default=[], metavar="ARCH", help="compile for ARCH instead; may be repeated"
        )

    def add_trust(self) -> None:
        """For a workspace that is new here."""
        self.add_argument("--trust", action="store_true", help=TRUST_HELP)

    def add_daemon(self) -> None:
        """For commands that ask the daemon."""
        self.add_argument("--no-daemon", action="store_true", help="work in this process, without the daemon")
        self.add_trust()


class _UnusedParser:
    """Takes the options and actions of a command that is not asked for: making all parsers takes longer than a
    command's own work may."""

    def __getattr__(self, _name: str) -> Callable[..., _UnusedParser]:
        return self._nothing

    def _nothing(self, *_words: object, **_settings: object) -> _UnusedParser:
        return self


class ProgramParser(_SuggestingParser):
    """The parser of the whole command line. Its help lists the commands by task.

    `only`: the one command that is asked for, where it is known; the others' options are not looked at.
    """

    def __init__(self, only: str | None = None) -> None:
        super().__init__(
            prog="ckwatch",
            description="Check, compile and time Composable Kernel templates.",
            epilog="`ckwatch COMMAND --help` describes a command and its options.",
            allow_abbrev=False,
        )
        self.add_argument("--version", action="version", version=f"ckwatch {__version__}", help="print the version")
        self._commands = self.add_subparsers(
            dest="command", required=True, metavar="COMMAND", parser_class=CommandParser
        )
        self._groups: dict[str, list[argparse.Action]] = {}
        self._only = only

    @property
    def has_commands(self) -> bool:
        """True if there is any; not if `only` is no command."""
        return bool(self._commands.choices)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The options; ends with what is wrong with them."""
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            options.parser.refuse(rest)
        return options

    def group(self, title: str) -> None:
        """List the commands that follow under this title."""
        self._groups[title] = []

    def add(self, name: str, run: Run, text: str, more: str = "") -> CommandParser:
        """A command. `text` is its line in the list of commands; with `more` it is the command's description."""
        sub = self._listed(name, text, more)
        sub.add_common()
        sub.set_defaults(run=run)
        return sub

    def add_actions(self, name: str, text: str) -> Callable[[str, Run, str], CommandParser]:
        """A command that has actions (`ckwatch baseline set`), and a function that adds an action to it."""
        actions = self._listed(name, text).add_subparsers(
            dest="action", required=True, metavar="ACTION", title="actions", parser_class=CommandParser
        )

        def add(action: str, run: Run, action_text: str) -> CommandParser:
            sub: CommandParser = actions.add_parser(action, help=action_text, description=f"{action_text}.")
            sub.add_common()
            sub.set_defaults(run=run)
            return sub

        return add

    def _listed(self, name: str, text: str, more: str = "") -> CommandParser:
        if self._only not in (None, name):
            return cast("CommandParser", _UnusedParser())
        group = next(reversed(self._groups.values()))
        group.append(argparse.Action([], "command", metavar=name, help=text))
        return self._commands.add_parser(name, description=f"{text}. {more}".rstrip())

    def format_help(self) -> str:
        """The usage, the commands of each group, and the options."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for title, commands in self._groups.items():
            formatter.start_section(title)
            formatter.add_arguments(commands)
            formatter.end_section()
        formatter.start_section("Options")
        formatter.add_arguments(action for action in self._actions if action.option_strings)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def parser_for(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of a command line: of its command alone, where that comes first."""
    if arguments and not arguments[0].startswith("-"):
        parser = make_parser(arguments[0])
        if parser.has_commands:
            return parser
    return make_parser()


def make_parser(only: str | None = None) -> ProgramParser:
    """The parser of the whole command line, or of `only` one command."""
    parser = ProgramParser(only)
    parser.group("Write and check")
    _add_writing(parser)
    parser.group("Build and measure")
    _add_building(parser)
    _add_timings(parser)
    parser.group("Look into a unit")
    _add_analysis(parser)
    parser.group("Daemon and editors")
    _add_daemon(parser)
    parser.group("Environment")
    _add_farm(parser)
    _add_environment(parser)
    return parser


def _add_writing(parser: ProgramParser) -> None:
    init = parser.add("init", command("init:run"), "Create a workspace with a kernel that works")
    init.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="where (default: here)")

    check = parser.add(
        "check",
        command("build_at_once:check"),
        "Check kernels without compiling them",
        "It reports every mistake that can be found without a compiler. Exit status 1 if there are errors.",
    )
    _add_build_options(check)

    listing = parser.add("list", command("listing:run"), "List units and what is known of each")
    listing.add_patterns()
    listing.add_json()
    listing.set_defaults(arch=[])
    listing.add_daemon()

    watch = parser.add("watch", command("watch:run"), "Build what changes, and show units and errors live")
    watch.add_patterns()
    watch.add_trust()
    watch.add_argument("--no-build", action="store_true", help="only show; request no builds")
    watch.add_json("print every change as a JSON object on its own line")

    render = parser.add("render", command("render:run"), "Print or write the C++ that templates render to")
    render.add_name("units", "unit", nargs="?", metavar="UNIT", help=f"{UNIT_HELP} (with --out, default: all)")
    render.add_argument(
        "--out", type=Path, metavar="DIR", help="write the text of each unit and compile_commands.json, for clangd"
    )
    render.add_argument("--map", action="store_true", help="print where each piece of each line comes from")
    render.add_json("print text, map and the files that were read as JSON")
    render.add_archs()
    render.add_daemon()
    _add_imports(parser)


def _add_imports(parser: ProgramParser) -> None:
    add = parser.add_actions("import", "Write kernel files and templates, or keep others' timings")
    instances = add(
        "ck4inductor",
        command("imports.ck4inductor:run"),
        "Write kernel files with CK's own instances, from ck4inductor",
    )
    families = ("gemm", "batched_gemm", "convolution")
    instances.add_argument("family", choices=families, metavar="FAMILY", help=", ".join(families))
    listed = add(
        "aiter", command("imports.aiter:run"), "Write kernel files with AITER's instances, from one of its lists"
    )
    listed.add_argument("file", type=Path, metavar="FILE", help="a list, as gemm_a8w8_common.py; it is not run")
    listed.add_argument(
        "--gemm-spec",
        choices=("MNKPadding", "Default"),
        default="MNKPadding",
        help="for all sizes, or for those that a tile divides (default: MNKPadding; AITER builds both)",
    )
    template = add(
        "inductor", command("imports.inductor:run"), "Write a template, and a kernel file for it, from a Python file"
    )
    template.add_argument("file", type=Path, metavar="FILE", help="Python source with a template string; it is not run")
    template.add_argument("--name", metavar="NAME", help="which string: ATTRIBUTE or CLASS.ATTRIBUTE")
    template.add_argument("--as", dest="called", metavar="NAME", help="what to call both files (default: after FILE)")
    for sub, expression, spelling in (
        (instances, "m_per_block >= 128", "with Inductor's names of parameters or CK's, as it reads them"),
        (listed, "MPerBlock >= 128", "with CK's names of parameters"),
    ):
        sub.add_argument(
            "--filter",
            action="append",
            default=[],
            metavar="FILTER",
            help=f"only instances for which it holds: NAME=VALUE, or an expression as '{expression}'; may be repeated",
        )
        sub.add_name(
            "templates", "--template", metavar="TEMPLATE", help=f"for this template, {spelling} (default: the built-in)"
        )
        sub.add_argument("--output", type=Path, metavar="DIR", help="where (default: `kernels` in the workspace)")
        sub.add_argument(
            "--limit", type=positive, metavar="N", help="at most N instances of each operation, spread over its list"
        )
    timings = add("timings", command("imports.timings:run"), "Keep what others measured beside one's own timings")
    timings.add_argument(
        "files",
        type=Path,
        nargs="*",
        metavar="FILE",
        help="AITER's *_tuned_gemm.csv, Kernel Tuner's cache or T4 file",
    )
    timings.add_argument(
        "--format", choices=("aiter", "kernel-tuner"), help="whose format it is (default: by what is in the file)"
    )
    timings.add_argument("--source", metavar="TEXT", help="whose timings they are, as in 'AITER e4048607'")
    timings.add_name(
        "kernels", "--kernel", metavar="KERNEL", help="which kernel they are about, if FILE does not say it"
    )
    timings.add_argument("--device", metavar="TEXT", help="where they were measured, if FILE does not say it")
    what = timings.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the files that timings were imported from")
    what.add_argument("--remove", action="store_true", help="drop what was imported from FILE")
    timings.add_json()
    timings.set_defaults(arch=[])
    timings.add_daemon()
    for sub in (instances, listed, template):
        sub.add_argument("--force", action="store_true", help="replace files that are there")
        sub.add_json()


def _add_build_options(sub: CommandParser) -> None:
    sub.add_patterns()
    sub.add_json("print one JSON object per line")
    sub.add_argument("--details", action="store_true", help="print all notes and the compiler's own output")
    sub.add_archs()
    sub.add_daemon()


def _add_building(parser: ProgramParser) -> None:
    build = parser.add(
        "build",
        command("build_at_once:build"),
        "Compile kernels; unchanged units come from the store",
        "Exit status 1 if a unit fails to compile.",
    )
    _add_build_options(build)
    build.add_argument("--header-warnings", action="store_true", help="show warnings in headers too")
    build.add_argument(
        "--no-rules", action="store_true", help="skip the instance rules; let the compiler find mistakes"
    )
    build.add_argument("--force", action="store_true", help="compile even what is in the store")
    build.add_argument("--out", type=Path, metavar="DIR", help="copy shared objects and code objects to DIR")
    build.add_argument("--aot", action="store_true", help="with --out: copy object files (.o) too")
    build.add_argument(
        "--runner", action="store_true", help="with --out: write a program per unit that runs and verifies it"
    )


def _add_timings(parser: ProgramParser) -> None:
    bench = parser.add(
        "bench",
        command("bench:run"),
        "Build kernels and time them on a device",
        "Exit status 1 if a kernel fails, 2 if there is no device to time it on.",
    )
    bench.add_patterns()
    bench.add_argument(
        "--shape", action="append", default=[], metavar="SHAPE", help=f"time this shape: {SHAPE_HELP}; may be repeated"
    )
    bench.add_argument("--device", metavar="DEVICE", help="hip:N, cuda:N, cpu, a PCI address, HOST/hip:N, or auto")
    bench.add_argument("--devices", action="store_true", help="only list the devices")
    bench.add_argument("--force", action="store_true", help="time units again that have a timing")
    bench.add_argument(
        "--flush-instructions",
        action="store_true",
        help='empty the instruction caches before each launch, as `instruction_cache = "flush"` under [bench] does',
    )
    bench.add_argument(
        "--self-test",
        action="store_true",
        help="try everything that timings on the device rest on, in about two minutes, and write a report; exit status "
        "1 if something does not hold",
    )
    bench.add_argument(
        "--output", type=Path, metavar="FILE", help="where the report goes (default: ckwatch-self-test.md)"
    )

    verify = parser.add(
        "verify",
        command("verify:run"),
        "Build kernels and see whether they are right, without a GPU",
        "An emulator on this machine's processor runs what was compiled for gfx90a, gfx942, gfx950 or gfx1100: some "
        "forty shapes, with every access to memory checked. Exit status 1 if a kernel is wrong or does not build, 2 if "
        "it cannot be verified.",
    )
    verify.add_patterns()
    verify.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="SHAPE",
        help=f"try this shape only: {SHAPE_HELP}, or one that --details prints; may be repeated",
    )
    verify.add_argument("--details", action="store_true", help="print every shape that was tried")
    verify.add_argument("--force", action="store_true", help="execute again what was verified already")

    emulate = parser.add(
        "emulate",
        command("emulate:run"),
        "Run a program that uses HIP without a GPU",
        "The program gets the emulator for an AMD GPU. What is found in its kernels is printed when it has ended. Exit "
        "status: the program's, or 1 if that is 0 and there is a mistake in a kernel.",
    )
    emulate.add_argument("--arch", choices=EMULATED_ARCHS, default="gfx942", help="which GPU (default: gfx942)")
    emulate.add_argument(
        "--instruction-limit", type=positive, default=INSTRUCTION_LIMIT, metavar="N",
        help="a workgroup of up to four waves that executes more has no end (default: %(default)s)",
    )  # fmt: skip
    emulate.add_argument("program", metavar="PROGRAM", help="linked with libamdhip64, or loading it")
    emulate.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="of the program")

    tune = parser.add(
        "tune",
        command("tune:run"),
        "Find the best instance of a kernel for each shape",
        "Searches the instances of the kernel file and the points of its sweeps with `tune = true`, with as few "
        "compiles and measurements as possible. What is found is kept: a run that was ended or killed goes on where it "
        "was. Exit status 1 if there is a shape on which nothing could be timed.",
    )
    tune.add_name("kernels", "kernel", metavar="KERNEL", help="the name of a kernel")
    tune.add_argument(
        "--shape", action="append", default=[], metavar="SHAPE", help=f"for this shape: {SHAPE_HELP}; may be repeated"
    )
    tune.add_argument("--budget", type=seconds, metavar="TIME", help="end after 90s, 20m or 2h with the best so far")
    tune.add_argument("--measurements", type=positive, metavar="N", help="end after N measurements")
    tune.add_argument(
        "--patience", type=whole, default=40, metavar="N",
        help="end a shape's search when N instances have brought nothing (default: 40; 0: never)",
    )  # fmt: skip
    tune.add_argument(
        "--device", action="append", default=[], metavar="DEVICE",
        help="hip:N, cuda:N, cpu, a PCI address or HOST/hip:N, may be repeated; all: every one like the best "
        "(default: the best)",
    )  # fmt: skip
    tune.add_argument("--arch", dest="of_arch", metavar="ARCH", help="an arch it is compiled for (default: the first)")
    tune.add_argument(
        "--strategy", choices=("local", "random", "all"), default="local", help="how to search (default: local)"
    )
    tune.add_argument("--seed", type=whole, default=0, metavar="N", help="of what is drawn at random (default: 0)")
    tune.add_argument("--jobs", type=positive, metavar="N", help="compiles at a time (default: the workspace's)")
    tune.add_argument("--no-racing", action="store_true", help="time each instance to the end, however slow it is")
    tune.add_argument("--again", action="store_true", help="forget what earlier runs have found")
    tune.add_argument("--write", action="store_true", help="append the winners to the kernel file")
    tune.add_argument(
        "--export",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="write all results to FILE.csv or .json",
    )
    tune.add_argument("--aiter", type=Path, metavar="FILE", help="write the best as AITER's tuned CSV")
    tune.add_argument("--report", type=Path, metavar="FILE", help="write a report to FILE.html")
    tune.add_json()
    tune.set_defaults(arch=[])
    tune.add_daemon()

    history = parser.add("history", command("history:run"), "Show the timings of a unit")
    history.add_name("units", "unit", metavar="UNIT", help=UNIT_HELP)
    history.add_argument("-n", "--limit", type=positive, default=50, metavar="N", help="how many (default: 50)")

    compare = parser.add(
        "compare",
        command("compare:run"),
        "Compare the timings of two units, or of a unit and its past",
        "The verdict is FAST, SLOW, SAME, or UNSURE where the timings cannot decide it.",
    )
    compare.add_name("units", "unit", metavar="A", help=UNIT_HELP)
    compare.add_name(
        "units",
        "other",
        metavar="B",
        help="another unit, `previous` (its last build), `library` or `baseline[:NAME]`",
    )

    best = parser.add(
        "best", command("best:run"), "Rank the instances of a kernel by time", "Instances without a timing say why."
    )
    best.add_name("kernels", "kernel", metavar="KERNEL", help="the name of a kernel")
    best.add_argument("--cache", choices=("cold", "hot"), help="by times with this cache (default: cold where known)")
    best.add_argument("--chart", choices=("heat-map", "roofline"), help="what --plot draws (default: heat-map)")

    for sub in (history, compare, best):
        sub.add_argument("--shape", metavar="SHAPE", help=f"only on this shape: {SHAPE_HELP}")
    for sub in (history, best):
        sub.add_argument("--plot", type=Path, metavar="FILE", help="write a plot to FILE.svg or FILE.png")
    for sub in (bench, verify, history, compare, best):
        sub.add_json()
        sub.set_defaults(arch=[])
        sub.add_daemon()

    add = parser.add_actions("baseline", "Name timings to compare later ones with")
    baseline_set = add("set", command("baseline:set_"), "Let NAME be the latest timings of units")
    listing = add("list", command("baseline:list_"), "List the baselines")
    remove = add("remove", command("baseline:remove"), "Remove a baseline; its timings stay")
    for sub in (baseline_set, remove):
        sub.add_argument("name", metavar="NAME", help="the baseline's name")
    baseline_set.add_patterns()
    for sub in (baseline_set, listing, remove):
        sub.add_json()
        sub.set_defaults(arch=[])
        sub.add_daemon()

    export = parser.add(
        "export", command("export.command:run"), "Write a unit as a Python module, or timings as JSON or CSV"
    )
    export.add_name("units", "unit", nargs="?", metavar="UNIT", help=f"{UNIT_HELP} (with --timings, default: all)")
    export.add_argument("--out", type=Path, metavar="PATH", help="the module's folder (default: here), or a file")
    export.add_argument("--name", metavar="NAME", help="the module's name (default: after the unit)")
    export.add_argument(
        "--autotune", action="store_true", help="UNIT is a kernel: its fastest instances, chosen by size at each call"
    )
    export.add_argument("--timings", choices=("json", "csv"), help="write timings, to --out or standard output")
    export.add_argument(
        "--shape", action="append", default=[], metavar="SHAPE",
        help=f"with --autotune and --timings: only on this shape: {SHAPE_HELP}; may be repeated",
    )  # fmt: skip
    export.add_argument(
        "--device", metavar="DEVICE", help="with --autotune: by timings on this device, by name or PCI address"
    )
    export.add_argument("--samples", action="store_true", help="with --timings json: raw samples, clocks, versions too")
    export.add_json("print the paths of the module's files as JSON")
    export.add_archs()
    export.add_daemon()


def _add_analysis(parser: ProgramParser) -> None:
    """Performance without a GPU."""
    explain = parser.add(
        "explain",
        command("explain:run"),
        "Explain what a unit depends on, and why it is in its state",
        "Exit status 1 if the unit has errors.",
    )
    explain.add_name("units", "unit", metavar="UNIT", help=UNIT_HELP)
    explain.add_json()
    explain.add_argument("--time", action="store_true", help="compile it, and show where the compile time goes")
    explain.add_argument(
        "--trace", type=Path, metavar="FILE", help="like --time, and write clang's trace to FILE for chrome://tracing"
    )
    explain.add_archs()
    explain.add_daemon()

    inspect = parser.add(
        "inspect",
        command("inspect:inspect"),
        "Show a code object's registers, occupancy, main loop and bounds",
        "No GPU is needed.",
    )
    inspect.add_name("units", "unit", nargs="?", metavar="UNIT", help=UNIT_HELP)
    inspect.add_argument("--isa", action="store_true", help="print the instructions with source lines, the loop open")
    inspect.add_argument("--kernel", metavar="NAME", help="--isa of this kernel of the unit (default: the main one)")
    inspect.add_argument("--whole", action="store_true", help="--isa with nothing folded")
    inspect.add_argument("--no-lines", action="store_true", help="--isa without the compile that source lines need")
    inspect.add_argument(
        "--calibration", action="store_true", help="show how far predictions are off, over all fresh timings"
    )
    rank = parser.add(
        "rank", command("inspect:rank"), "Rank the instances of a kernel by predicted time, without a GPU"
    )
    rank.add_name("kernels", "kernel", metavar="KERNEL", help="the name of a kernel")
    rank.add_argument("--shape", required=True, metavar="SHAPE", help=SHAPE_HELP)
    rank.add_argument("--arch", dest="of_arch", metavar="ARCH", help="an arch it is compiled for (default: the first)")
    rank.add_argument(
        "--part", default="", metavar="PART", help="predict for PART, such as MI300X (default: the fastest)"
    )
    for sub in (inspect, rank):
        sub.set_defaults(arch=[])
        sub.add_json()
        sub.add_daemon()


def _add_daemon(parser: ProgramParser) -> None:
    start = parser.add(
        "start", command("daemon:start"), "Start the workspace's daemon", "Other commands start it when they need it."
    )
    start.add_argument("--foreground", action="store_true", help="run it here until Ctrl-C, with its log on stderr")
    start.add_trust()
    parser.add(
        "stop",
        command("daemon:stop"),
        "Stop the daemon",
        "It waits until the daemon has ended, and kills one that hangs.",
    )
    restart = parser.add("restart", command("daemon:restart"), "Stop the daemon and start it again")
    restart.add_trust()
    status = parser.add(
        "status", command("daemon:status"), "Show what the daemon does", "Exit status 3 if it is not running."
    )
    status.add_json()
    cancel = parser.add(
        "cancel",
        command("cancel:run"),
        "End what the daemon compiles, times and verifies",
        "It stays cancelled until it is edited, or a command asks for it.",
    )
    cancel.add_patterns()
    cancel.add_json()
    logs = parser.add("logs", command("logs:run"), "Print the end of the daemon's log")
    logs.add_argument("-f", "--follow", action="store_true", help="print what is added, until Ctrl-C")
    logs.add_argument("-n", "--lines", type=positive, default=100, metavar="N", help="how many lines (default: 100)")
    lsp = parser.add(
        "lsp",
        command("ckwatch_lsp.main:main", passing="resume"),
        "Run the language server",
        "It speaks the Language Server Protocol on standard input and output; editors start it.",
    )
    lsp.add_argument("--stdio", action="store_true", help="accepted for editors; it is the only transport")
    lsp.add_argument("--resume", type=int, metavar="FD", help="the state that a replaced server hands over")
    web = parser.add(
        "web",
        command("web:run"),
        "Open a page that shows what is fast and what changed",
        "It is served on loopback alone, until Ctrl-C, and needs the extra `web`.",
    )
    web.add_patterns()
    web.add_argument("--export", type=Path, metavar="DIR", help="write the views of these units into DIR as HTML")
    web.add_argument("--traces", action="store_true", help="--export with where the compile time of each unit goes")
    web.add_argument("--allow-changes", action="store_true", help="let the page build, time, verify, tune and cancel")
    web.add_argument("--port", type=port, default=0, metavar="PORT", help="on this port (default: any that is free)")
    web.add_argument("--no-open", action="store_true", help="print the address and open no browser")
    web.add_argument("--share", action="store_true", help="print how to see the page on another machine, through ssh")
    web.set_defaults(arch=[], no_daemon=False)
    web.add_trust()


def _add_farm(parser: ProgramParser) -> None:
    add = parser.add_actions("farm", "Compile and time on other machines, through dask.distributed")
    up = add("up", command("farm:up"), "Start the scheduler and the workers of [farm] cluster")
    up.add_trust()
    status = add("status", command("farm:status"), "Show the workers, what they can do and what they do")
    status.add_json()
    add("down", command("farm:down"), "End the scheduler and its workers")
    certificates = add("certificates", command("farm:certificates"), "Make certificates, and say what to copy where")
    certificates.add_argument("names", nargs="*", metavar="MACHINE", help="also a folder to copy to this machine")


def _add_environment(parser: ProgramParser) -> None:
    doctor = parser.add(
        "doctor",
        command("toolchain:doctor"),
        "Check the installation and say how to fix it",
        "Exit status 2 if something that is needed is missing.",
    )
    doctor.add_json()
    doctor.add_argument("--smoke", action="store_true", help="compile a small kernel too")
    doctor.add_argument("--quiet", action="store_true", help="print nothing; only set the exit status")

    add = parser.add_actions("toolchain", "Install, list or remove private toolchains")
    install = add("install", command("toolchain:install"), "Install ROCm and Composable Kernel into your cache folder")
    part = (
        "`ck`: only Composable Kernel's headers and instance lists, for a ROCm that lacks them "
        "(default: all, or nothing with --clangd)"
    )
    install.add_argument("part", nargs="?", choices=("all", "ck"), help=part)
    clangd = "fetch the clangd that answers questions about C++ in templates, of the compiler's version"
    install.add_argument("--clangd", action="store_true", help=clangd)
    install.add_argument("--mirror", metavar="URL", help="a Debian mirror (default: the one apt is configured with)")
    install.add_argument("--force", action="store_true", help="install again even if one is installed")
    install.add_argument("--quiet", action="store_true", help="no progress bar")
    add("list", command("toolchain:list_installed"), "List the installed toolchains")
    remove = add("remove", command("toolchain:remove"), "Remove an installed toolchain")
    remove.add_argument("name", metavar="NAME", help="its name in `ckwatch toolchain list`")

    add = parser.add_actions("templates", "List templates, or copy one to change it")
    templates_list = add("list", command("templates:list_"), "List templates")
    templates_list.add_argument("--all", action="store_true", help="also those that only other templates include")
    templates_list.add_json()
    copy = add("copy", command("templates:copy"), "Copy a template into the workspace, where it is used instead")
    copy.add_name("templates", "name", metavar="NAME", help="its name in `ckwatch templates list`")
    copy.add_argument("target", nargs="?", metavar="NEW", help="another name for the copy (default: the same)")

    add = parser.add_actions("store", "Show what the store of artifacts takes, or make it smaller")
    store_size = add("size", command("store:size"), "Show what the store takes")
    gc_ = add("gc", command("store:collect_garbage"), "Remove what was unused for longest, down to the size limit")
    gc_.add_argument("--limit", metavar="SIZE", help='down to this size instead, as in "5 GiB"')
    for sub in (store_size, gc_):
        sub.add_json()

    schema = parser.add(
        "schema",
        command("schema:run"),
        "Print the JSON Schema of what --json prints",
        "Without COMMAND, one document with a definition for each command.",
    )
    schema.add_name("commands", "words", nargs="*", metavar="COMMAND", help="a command, and its action if it has some")

    completion = parser.add(
        "completion",
        command("completion:run"),
        "Print what makes a shell complete commands and units",
        'For bash or zsh: eval "$(ckwatch completion bash)" in its start-up file.',
    )
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish", "tcsh"), metavar="SHELL", help="bash, zsh, fish or tcsh"
    )

    trust = parser.add("trust", command("trust:run"), "Trust a workspace, or a folder of workspaces, to run its code")
    trust.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="which (default: the workspace here)")
    what = trust.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the trusted folders")
    what.add_argument("--remove", action="store_true", help="no longer trust DIR")
    what.add_argument("--shared", action="store_true", help="trust DIR even though others can write to it")
