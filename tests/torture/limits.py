"""Texts and messages that are too large, too deep or without end, and a daemon that may open few files or write little.

Kernel files with thousands of tables and parts, sweeps of billions, nesting, identifiers of a megabyte; templates that loop,
recurse, include without end or print too much; requests of megabytes and hundreds of connections. The daemon refuses what is
too much at its place, goes on with the other kernel, stays small and hangs nowhere.
"""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

import httpx

from benches.daemon_bench import KERNEL
from ckwatch.wire.endpoint import endpoint_of
from torture.bystander import ANSWER_S, Illtreated, build, check_alive, check_others, errors, ill_treat, outcomes
from torture.daemons import Daemon
from torture.rounds import Rounds

HEAD = KERNEL.partition("[[instance]]")[0]
ONE = '[[instance]]\nname = "one"\nTile = 1\n'
MIB = 1024 * 1024


def values(count: int) -> str:
    """A list in TOML."""
    return "[" + ", ".join(map(str, range(count))) + "]"


def names(count: int) -> str:
    """A list of strings, in TOML and in Jinja."""
    return json.dumps([f"gfx{i}" for i in range(count)])


KERNEL_FILES: dict[str, Callable[[], str]] = {
    "a key of 10,000 parts": lambda: HEAD + ONE + "a." * 10_000 + "b = 1\n",
    "keys of many parts": lambda: HEAD + ONE + "".join(f"{'x.' * 90}k{i} = 1\n" for i in range(2000)),
    "5,000 tables": lambda: HEAD + ONE + "".join(f"[t{i}]\n" for i in range(5000)),
    "a table of 5,000 parts": lambda: HEAD + "[" + ".".join("a" for _ in range(5000)) + "]\n" + ONE,
    "2,000 instances": lambda: HEAD + "".join(f'[[instance]]\nname = "i{i}"\nTile = {i}\n' for i in range(2000)),
    "instances of one name": lambda: HEAD + '[[instance]]\nname = "i"\n' * 20_000,
    "a sweep of 10^20": lambda: HEAD + "[[sweep]]\n" + "".join(f"P{i} = {values(100)}\n" for i in range(10)),
    "a sweep over 300,000 values": lambda: HEAD + f"[[sweep]]\nTile = {values(300_000)}\n",
    "a sweep of many parameters": lambda: HEAD + "[[sweep]]\n" + "".join(f"P{i} = [1, 2]\n" for i in range(3000)),
    "5,000 shapes": lambda: (
        HEAD + "".join(f'[[shape]]\nname = "s{i}"\nM = 8\nN = 8\nK = {8 + i}\n' for i in range(5000)) + ONE
    ),
    "a shape of 10^30": lambda: HEAD + f'[[shape]]\nname = "s"\nM = {10**30}\nN = 8\nK = 8\n' + ONE,
    "nested arrays": lambda: HEAD + ONE + f"x = {'[' * 20_000}{']' * 20_000}\n",
    "nested arrays, open": lambda: HEAD + ONE + f"x = {'[' * 200_000}\n",
    "nested inline tables": lambda: HEAD + ONE + f"x = {'{a = ' * 5000}1{'}' * 5000}\n",
    "an integer of 100,000 digits": lambda: HEAD + ONE + f"x = {'9' * 100_000}\n",
    "a float of 100,000 digits": lambda: HEAD + ONE + f"x = 1.{'9' * 100_000}e{'9' * 1000}\n",
    "a hexadecimal of 1,000,000 digits": lambda: HEAD + ONE + f"x = 0x{'f' * MIB}\n",
    "a name of a megabyte": lambda: HEAD + f'[[instance]]\nname = "{"n" * MIB}"\nTile = 1\n',
    "a parameter of a megabyte": lambda: HEAD + ONE + f"{'p' * MIB} = 1\n",
    "a value of a megabyte": lambda: HEAD + ONE + f'x = "{"v" * MIB}"\n',
    "a template of a megabyte": lambda: KERNEL.replace("k.hip.j2", "t" * MIB),
    "a type of a megabyte": lambda: KERNEL.replace('"f16"', f'"{"f" * MIB}"'),
    "a string without end": lambda: HEAD + ONE + f'x = "{"v" * MIB}\n',
    "7 MB of quotes": lambda: HEAD + ONE + 'x = "' + "'\"" * 3_500_000,
    "7 MB of comments": lambda: KERNEL + "# nothing\n" * 700_000,
    "7 MB of mistakes": lambda: KERNEL + "= 1\n" * 1_700_000,
    "100,000 times the same key": lambda: HEAD + ONE + "x = 1\n" * 100_000,
    "300,000 keys": lambda: HEAD + ONE + "".join(f"x{i} = 1\n" for i in range(300_000)),
    "archs": lambda: f"archs = {names(5000)}\n" + KERNEL,
}
WORKSPACE_FILES: dict[str, Callable[[], str]] = {
    "nested": lambda: "[compile]\nflags = " + "[" * 20_000 + "]" * 20_000 + "\n",
    "flags": lambda: f"[compile]\nflags = {json.dumps(['-DX=1'] * 100_000)}\n",
    "a flag of a megabyte": lambda: f'[compile]\nflags = ["-D{"X" * MIB}"]\n',
    "jobs": lambda: f"[compile]\njobs = {10**18}\n",
    "digits": lambda: f"[compile]\njobs = {'9' * 5000}\n",
    "folders": lambda: f"[workspace]\ntemplates = {names(20_000)}\n",
    "globs": lambda: f'[workspace]\nkernels = ["{"**/" * 3000}*.kernel.toml"]\n',
    "tables": lambda: "".join(f"[t{i}]\n" for i in range(20_000)),
    "a key": lambda: "[a." + ".".join("b" for _ in range(10_000)) + "]\n",
}
ENDLESS = 10**9
TEMPLATES: dict[str, Callable[[], str]] = {
    "a loop of 10^9": lambda: f"{{% for i in range({ENDLESS}) %}}x{{% endfor %}}",
    "a silent loop": lambda: "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a macro that calls itself": lambda: "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "macros that call each other": lambda: "{% macro a(n) %}{{ b(n) }}{{ b(n) }}{% endmacro %}{% macro b(n) %}{{ a(n) }}{% endmacro %}{{ a(0) }}",
    "itself": lambda: '{% include "k.hip.j2" %}',
    "itself, twice": lambda: '{% include "k.hip.j2" %}{% include "k.hip.j2" %}',
    "its child": lambda: '{% extends "k.hip.j2" %}',
    "30,000 includes": lambda: '{% include "macros.j2" %}\n' * 30_000,
    "30,000 names that are not there": lambda: "".join(f'{{% include "n{i}" ignore missing %}}' for i in range(30_000)),
    "a list of 20,000 names": lambda: f"{{% include {names(20_000)} %}}",
    "100 MB": lambda: "{% for i in range(1000) %}{{ 'x' * 100000 }}\n{% endfor %}",
    "a line of 30 MB": lambda: "{% for i in range(3000) %}{{ 'x' * 10000 }}{% endfor %}",
    "a million lines": lambda: "{% for i in range(1000000) %}int x{{ i }};\n{% endfor %}",
    "a power": lambda: "{{ 9 ** 9 ** 9 }}",
    "a string of 10^10": lambda: "{{ 'x' * 10000000000 }}",
    "a list of 10^10": lambda: "{{ [0] * 10000000000 }}",
    "doubling": lambda: "{% set x = 'a' %}" + "{% set x = x ~ x %}" * 60 + "{{ x }}",
    "captured doubling": lambda: "{% set x %}a{% endset %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 60 + "{{ x }}",
    "50,000 parentheses": lambda: "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "20,000 blocks": lambda: "{% if true %}" * 20_000 + "{% endif %}" * 20_000,
    "300 blocks": lambda: "{% if true %}" * 300 + "x" + "{% endif %}" * 300,
    "20,000 sums": lambda: "{{ " + " + ".join(["1"] * 20_000) + " }}",
    "20,000 filters": lambda: "{{ 1 " + "| string " * 20_000 + "}}",
    "20,000 attributes": lambda: "{{ a" + ".b" * 20_000 + " }}",
    "a name of a megabyte": lambda: "{{ " + "n" * MIB + " }}",
    "a string of a megabyte": lambda: "{{ '" + "s" * MIB + "' }}",
    "a number of 100,000 digits": lambda: "{{ " + "9" * 100_000 + " }}",
    "a line of 7 MB": lambda: "x" * 7 * MIB,
    "7 MB of braces": lambda: "{" * 7 * MIB,
    "a comment of 7 MB": lambda: "{#" + "#" * 7 * MIB,
    "200,000 expressions": lambda: "{{ Tile }}\n" * 200_000,
    "200,000 undefined names": lambda: "".join(f"{{{{ u{i} }}}}\n" for i in range(200_000)),
    "200,000 lines of C++": lambda: "int x; // {{ Tile }}\n" * 200_000,
    "50,000 variables": lambda: "".join(f"{{% set v{i} = {i} %}}" for i in range(50_000)),
    "5,000 macros": lambda: "".join(f"{{% macro m{i}() %}}x{{% endmacro %}}" for i in range(5000)),
    "cycles": lambda: "{% set a = [] %}{% do a.append(a) %}{{ a }}{{ a | pprint }}{{ a == a }}",
    "header": lambda: "{% for i in range(100000) %}{{ header('hip') }}{% endfor %}",
    "globals": lambda: "{% for i in range(100000) %}{{ globals() }}{% endfor %}",
    "#line": lambda: "#line 999999999999 \"x\"\n#line -1\n#line 4294967296 \"" + "y" * MIB + '"\nint a;\n',
    "BROKEN 20,000 times": lambda: "int BROKEN; // {{ Tile }}\n" * 20_000,
    "raw": lambda: "{% raw %}" + "{{ x }}" * MIB,
}  # fmt: skip


def run(rounds: Rounds) -> None:
    """Until its time is over."""
    ill_treat(rounds, play)


def play(rounds: Rounds, daemon: Daemon, bench: Illtreated, chance: random.Random) -> None:
    """One round."""
    way = chance.choice(
        ("kernel file", "kernel file", "template", "template", "macros", "workspace", "includes", "request")
    )
    match way:
        case "kernel file":
            write(rounds, bench, "k.kernel.toml", KERNEL_FILES, chance)
        case "template":
            write(rounds, bench, "templates/k.hip.j2", TEMPLATES, chance)
        case "macros":
            write(rounds, bench, "templates/macros.j2", TEMPLATES, chance)
        case "workspace":
            write(rounds, bench, "ckwatch.toml", WORKSPACE_FILES, chance)
            build(daemon)
            errors(daemon)
            return
        case "includes":
            count = chance.choice((50, 400, 3000))
            rounds.using(f"{count} templates, each including the next")
            for number in range(count):
                bench.write(
                    f"templates/i{number}.j2", f'int x{number};\n{{% include "i{number + 1}.j2" ignore missing %}}'
                )
            bench.write(
                "templates/k.hip.j2", '{% include "i0.j2" %}\nint tile = {{ Tile }};\nint {{ KERNEL_NAME }}();\n'
            )
        case _:
            ask_too_much(rounds, daemon, chance)
    check_others(daemon, bench)
    began_s = time.monotonic()
    built = build(daemon, "k/one")
    found = errors(daemon)
    assert time.monotonic() - began_s < ANSWER_S
    unsettled = {name: one for name, one in outcomes(built).items() if one not in ("built", "failed", "skipped")}
    assert not unsettled or found, unsettled
    assert all(one in ("built", "skipped") for one in outcomes(built).values()) or found, outcomes(built)


def write(
    rounds: Rounds, bench: Illtreated, name: str, texts: dict[str, Callable[[], str]], chance: random.Random
) -> None:
    """Put one of the texts in place."""
    chosen = chance.choice(sorted(texts))
    rounds.using(f"{name}: {chosen}")
    text = texts[chosen]()
    if name.startswith("templates/"):
        text += "\nint tile = {{ Tile }};\nint {{ KERNEL_NAME }}();\n"
    if name == "ckwatch.toml":
        text += f"[store]\nfolder = {json.dumps(str(bench.store))}\n"
    bench.write(name, text)


def ask_too_much(rounds: Rounds, daemon: Daemon, chance: random.Random) -> None:
    """Large messages, and many at once."""
    kinds = (
        "overlay",
        "overlays",
        "nested",
        "header",
        "headers",
        "target",
        "endless",
        "connections",
        "patterns",
        "streams",
    )
    kind = chance.choice(kinds)
    rounds.using(f"request: {kind}")
    path = str(daemon.bench.root / "templates/k.hip.j2")
    with suppress(httpx.TransportError):  # it may be cut off
        match kind:
            case "overlay":
                text = chance.choice(list(TEMPLATES.values()))()
                refused(
                    daemon, "PUT", "/clients/big/overlays", content=json.dumps({"path": path, "text": text}).encode()
                )
                daemon.http.delete("/clients/big")
            case "overlays":
                for number in range(300):
                    refused(
                        daemon, "PUT", "/clients/big/overlays", json={"path": f"{path}{number}", "text": "x" * 20_000}
                    )
                daemon.http.delete("/clients/big")
            case "nested":
                refused(daemon, "POST", "/builds", content=b'{"units": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")
            case "header":
                refused(daemon, "GET", "/status", headers={"X": "x" * 2 * MIB})
            case "headers":
                refused(daemon, "GET", "/status", headers={f"X{i}": "x" for i in range(2000)})
            case "target":
                refused(daemon, "GET", f"/files?path={'x' * 60_000}")
            case "endless":
                refused(daemon, "POST", "/builds", content=(b" " * 65536 for _ in range(3000)))
            case "patterns":
                refused(daemon, "POST", "/builds", json={"units": ["*" * 500 + "x"] * 500})
            case "streams":
                with ExitStack() as stack:
                    for number in range(80):
                        stack.enter_context(daemon.http.stream("GET", f"/events?client=c{number}"))
            case _:
                with ExitStack() as stack, suppress(OSError):
                    for _ in range(400):
                        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
                        connection.settimeout(1)
                        connection.connect(str(endpoint_of(daemon.bench.root).socket))
                        connection.sendall(b"GET /v1/sta")
                    check_alive(daemon)


def refused(daemon: Daemon, method: str, path: str, **message: object) -> None:
    """A request that need not succeed."""
    answer = daemon.http.request(method, path, timeout=ANSWER_S, **message)  # type: ignore[arg-type]
    assert answer.status_code < 500, answer.text[:1000]
