"""From an edit to its first error at the client, against hipcc and clangd on the same rendered source.

Goals: an undeclared name in a template in at most 0.05 × `hipcc -fsyntax-only` where it ends the compile early, in the
instance's type, and in 0.08 × where it does not, both in 0.5 × clangd, whose preamble is warm; a bad tile parameter in
at most 0.02 × hipcc's failing run with the instance rules on, and with them off in 0.15 × where the host pass sees it
and 0.40 × where only the device pass does. What each pass sees is checked with the compiler. Beside hipcc's whole run,
the time until its own first error line is shown.

The unit was built before, nothing else runs, and every mistake is a new one. The time is taken from before the save.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio

from benchmarks import references
from benchmarks.choosing import alone, asked_runs
from benchmarks.clangd import clangd_on
from benchmarks.edit_to_artifact import built_as_it_is
from benchmarks.gemm_example import (
    A_CLUSTER,
    ERROR_LIMIT_S,
    ONE,
    Example,
    Follower,
    Parameters,
    example_daemon,
    following,
    rest,
    until_idle,
)
from benchmarks.hipcc import Hipcc, Run
from benchmarks.reporting import DAEMON_CODE, Row, row
from benchmarks.saving import save
from ckwatch.client import Client, connect
from ckwatch.compile.toolchain.discover import discover
from ckwatch.model.diagnostics import Diagnostic
from ckwatch.model.errors import CkwatchError

MEASURED_CODE = (*DAEMON_CODE, "daemon/ckwatch/compile", "templates")

HOST_SEES: Parameters = {"MXdlPerWave": 3}
"""128 % (32 · 3) ≠ 0: the tile is not made of whole waves."""

DEVICE_SEES: Parameters = {A_CLUSTER: (8, 64, 1)}
"""A thread cluster of 512 in a block of 256 threads."""

IN_TYPE = "a template, in the instance's type"
"""Nothing can be instantiated: compilers end soon."""

IN_FUNCTION = "a template, in the exported function"
"""All else is instantiated: compilers take as long as without the mistake, and print it on the way."""

RULES = "rule"
"""The source of the instance rules' diagnostics."""


class Edits:
    """Mistakes made in the example, one after the other, as one client sees them."""

    def __init__(self, example: Example, follower: Follower, hipcc: Hipcc) -> None:
        self.example = example
        self.follower = follower
        self.hipcc = hipcc
        self._edition = int(time.time()) % 1_000_000 * 1000

    async def undeclared_name(self, *, in_type: bool) -> tuple[float, str]:
        """A name that nobody declared, in a template: seconds until the error, and the rendered source."""
        name = f"undeclared_{self._new_edition()}"
        if in_type:
            path, text = self.example.instance_template, self.example.instance_text(name)
        else:
            path, text = self.example.template, self.example.template_text(f"(void){name};")
        seconds, _ = await self._made(path, text, name)
        return seconds, await self._source()

    async def bad_parameters(self, parameters: Parameters, *, rules: bool) -> tuple[float, str]:
        """Parameters that the operation does not take, in the kernel file."""
        text = self.example.kernel_text({"edition": self._new_edition()}, parameters)
        seconds, found = await self._made(self.example.kernel_file, text)
        if (found.source == RULES) is not rules:
            raise CkwatchError(f"the first error is {found.source}'s: {found.message}")
        return seconds, await self._source() if not rules else ""

    async def undo(self) -> None:
        """Everything as it was before."""
        await rest(self.example, self.follower)

    def _new_edition(self) -> int:
        self._edition += 1
        return self._edition

    async def _made(self, path: Path, text: str, about: str = "") -> tuple[float, Diagnostic]:
        if (present := self.follower.error()) is not None:
            raise CkwatchError(f"there is an error before the edit: {present.message}")
        begun_s = time.monotonic()
        save(path, text)
        told_s, found = await self.follower.until(lambda: self.follower.error(about), ERROR_LIMIT_S)
        return told_s - begun_s, found

    async def _source(self) -> str:
        rendered = await self.follower.client.rendered(self.example.units[0])
        if rendered.text is None:
            raise CkwatchError("the edited template renders to nothing")
        return rendered.text


async def undeclared_names(edits: Edits, good: str, runs: int, *, in_type: bool) -> list[Row]:
    """Two rows, or one without clangd."""
    name = f"undeclared name in {IN_TYPE if in_type else IN_FUNCTION}: edit to diagnostic"
    goal = 0.05 if in_type else 0.08
    ours: list[float] = []
    checks: list[float] = []
    sources: list[str] = []
    for _ in range(runs):
        seconds, source = await edits.undeclared_name(in_type=in_type)
        await edits.undo()
        checked = failed(await edits.hipcc.check(source))
        ours.append(seconds * 1e3)
        checks.append(checked.seconds * 1e3)
        sources.append(source)
        print(f"{name}: ckwatch {seconds:.3f} s, hipcc -fsyntax-only {checked.seconds:.3f} s")
    rows = [
        row(
            name,
            ours,
            checks,
            reference_name="hipcc -fsyntax-only",
            unit="ms",
            goal=f"at most {goal:.2f} ×",
            met=lambda _, ratio: ratio <= goal,
        )
    ]
    try:
        warm = await by_clangd(edits.hipcc, good, sources)
    except references.UnavailableError as error:
        print(f"left out: {name}, against clangd: {error}")
        return rows
    rows.append(
        row(
            f"{name}, against clangd",
            ours,
            warm,
            reference_name="clangd, preamble warm",
            unit="ms",
            goal="at most 0.5 ×",
            met=lambda _, ratio: ratio <= 0.5,
        )
    )
    return rows


async def by_clangd(hipcc: Hipcc, good: str, sources: list[str]) -> list[float]:
    """Milliseconds from the change of an open source to its diagnostics."""
    program = await references.clangd(hipcc.toolchain)
    times = []
    async with clangd_on(program, hipcc, hipcc.write(good, "kernel")) as clangd:
        wrong = await clangd.start(good)
        if any(found["severity"] == 1 for found in wrong):
            raise CkwatchError(f"clangd sees an error where there is none: {wrong[0]['message']}")
        for source in sources:
            seconds, published = await clangd.change(source)
            if not any("undeclared" in found["message"] for found in published):
                raise CkwatchError(f"clangd does not see the undeclared name: {published}")
            print(f"clangd {seconds:.3f} s")
            times.append(seconds * 1e3)
            await clangd.change(good)
    return times


async def rules_on(edits: Edits, runs: int) -> list[float]:
    """Milliseconds until the rules' message."""
    times = []
    for _ in range(runs):
        seconds, _ = await edits.bad_parameters(HOST_SEES, rules=True)
        print(f"bad tile parameter: ckwatch's rules {seconds:.3f} s")
        times.append(seconds * 1e3)
        await edits.undo()
    return times


async def rules_off(
    edits: Edits, parameters: Parameters, runs: int, *, host_sees: bool
) -> tuple[list[float], list[Run]]:
    """Milliseconds until the compiler's first message, and hipcc's failing runs on the same sources."""
    ours: list[float] = []
    whole: list[Run] = []
    for number in range(runs):
        seconds, source = await edits.bad_parameters(parameters, rules=False)
        await edits.undo()
        if number == 0:
            host = await edits.hipcc.check(source, "--offload-host-only")
            if host.ok is host_sees:
                raise CkwatchError(f"{parameters}: the host pass {'accepts' if host.ok else 'rejects'} it")
        ended = failed(await edits.hipcc.shared_object(source, "kernel"))
        ours.append(seconds * 1e3)
        whole.append(ended)
        print(
            f"bad tile parameter, {'host' if host_sees else 'device'} pass: ckwatch {seconds:.3f} s, "
            f"hipcc {ended.seconds:.3f} s (its first error line after {ended.first_error_s or 0.0:.3f} s)"
        )
    return ours, whole


def failed(run: Run) -> Run:
    """A run that must have ended with errors."""
    if run.ok or run.first_error_s is None:
        raise CkwatchError(
            "hipcc accepts the mistake" if run.ok else f"hipcc fails without an error: {run.text[-500:]}"
        )
    return run


def against_hipcc(name: str, ours: list[float], whole: list[Run], limit: float, *, own_line: bool) -> list[Row]:
    """A row with a goal, and one with hipcc's own first line."""
    rows = [
        row(
            name,
            ours,
            [run.seconds * 1e3 for run in whole],
            reference_name="hipcc, until it gives up",
            unit="ms",
            goal=f"at most {limit:.2f} ×",
            met=lambda _, ratio: ratio <= limit,
        )
    ]
    first = [run.first_error_s * 1e3 for run in whole if run.first_error_s is not None]
    if own_line and first:
        line = "hipcc, until its first error line"
        rows.append(row(f"{name}, against the first line", ours, first, reference_name=line, unit="ms", goal=""))
    return rows


@asynccontextmanager
async def without_rules(example: Example) -> AsyncIterator[Follower]:
    """Another client, who sees no instance rules."""
    async with AsyncExitStack() as stack:
        client: Client = await stack.enter_async_context(connect(example.root, start=False))
        await client.view(rules=False)
        follower = await stack.enter_async_context(following(client))
        await client.focus(*example.units)
        await until_idle(client)
        yield follower


async def compare(runs: int) -> list[Row]:
    """All rows."""
    async with AsyncExitStack() as stack:
        example, client = await stack.enter_async_context(example_daemon(ONE))
        hipcc = Hipcc(discover(), example.root.parent / "hipcc")
        await built_as_it_is(example, client)
        good = (await client.rendered(example.units[0])).text
        assert good is not None
        async with following(client) as follower:
            edits = Edits(example, follower, hipcc)
            rows = await undeclared_names(edits, good, runs, in_type=True)
            rows += await undeclared_names(edits, good, runs, in_type=False)
            by_rules = await rules_on(edits, runs)
        async with without_rules(example) as follower:
            edits = Edits(example, follower, hipcc)
            by_host, hipcc_host = await rules_off(edits, HOST_SEES, runs, host_sees=True)
            by_device, hipcc_device = await rules_off(edits, DEVICE_SEES, runs, host_sees=False)
    name = "bad tile parameter: edit to first diagnostic"
    rows += against_hipcc(f"{name}, instance rules on", by_rules, hipcc_host, 0.02, own_line=False)
    rows += against_hipcc(f"{name}, rules off, seen by the host pass", by_host, hipcc_host, 0.15, own_line=True)
    device = f"{name}, rules off, seen by the device pass only"
    return rows + against_hipcc(device, by_device, hipcc_device, 0.40, own_line=True)


def measure() -> list[Row]:
    """Nine rows; seven without clangd."""
    return anyio.run(compare, asked_runs())


if __name__ == "__main__":
    sys.exit(alone(measure, __doc__))
