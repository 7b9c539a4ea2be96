"""*Tuning*: what the tuning runs of all processes found, live, and runs that this page begins and stops."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyio import to_thread

from ckwatch import CkwatchError
from ckwatch.model.amounts import timestamp
from ckwatch.model.lazy_dataclass import dataclass
from ckwatch_web.choices import choose
from ckwatch_web.content import Action, Block, Choice, Content, Note
from ckwatch_web.places import TextPlace
from ckwatch_web.view import Query

if TYPE_CHECKING:  # numpy comes with it
    from ckwatch.tuning.results import TuningRun
    from ckwatch_web.feed import BackgroundJob, Feed

NO_BUDGET = "none"
BUDGETS = {"300": "5 min", "1200": "20 min", "3600": "1 h", "14400": "4 h", NO_BUDGET: "none"}
DEFAULT_BUDGET = "1200"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The choices in the address that exist. `run`: None if the kernel has none."""

    kernel: Choice
    runs: Choice
    budget: Choice
    run: TuningRun | None
    job: BackgroundJob | None
    """The last job that this page has begun for the kernel."""

    @property
    def here(self) -> bool:
        """True if the run goes on in this process."""
        return self.run is not None and self.job is not None and self.job.running and self.job.subject == self.run.id


def run_label(run: TuningRun) -> str:
    """Return a run's label among others of its kernel, the distinguishing part first."""
    state = "running" if run.running else "ended" if run.ended else "interrupted"
    return f"{run.id}: {state}, {timestamp(run.began_at)}, {run.device}"


def chosen_of(
    query: Query, runs: Sequence[TuningRun], kernels: Sequence[str], jobs: Mapping[str, BackgroundJob]
) -> Chosen:
    """The choices. `runs`: of all kernels, newest first; `kernels`: those that there are besides."""
    named = next((run.kernel for run in runs if str(run.id) == query.get("run")), "")
    newest = runs[0].kernel if runs else ""
    names = sorted({*kernels, *(run.kernel for run in runs)})
    kernel = choose("kernel", "Kernel", names, query, named or newest)
    own = {str(run.id): run for run in runs if run.kernel == kernel.value}
    choice = choose("run", "Run", {key: run_label(run) for key, run in own.items()}, query)
    budget = choose("budget", "Budget of a new run", BUDGETS, query, DEFAULT_BUDGET)
    return Chosen(
        kernel=kernel,
        runs=choice,
        budget=Choice(key=budget.key, label=budget.label, options=budget.options, value=budget.value, changes=True),
        run=own.get(choice.value),
        job=jobs.get(job_name(kernel.value)),
    )


def job_name(kernel: str) -> str:
    """Return the page's name of its run of a kernel; there is one at a time."""
    return f"Tuning {kernel}"


def actions_of(chosen: Chosen) -> tuple[Block, ...]:
    """Return the actions that can be started and stopped."""
    run, kernel = chosen.run, chosen.kernel.value
    idle = chosen.job is None or not chosen.job.running
    label = "Resume" if run is None else f"Another run like {run.id}" if run.ended else f"Resume run {run.id}"
    resumable = run is not None and run.resumable and not run.running
    return (
        chosen.budget,
        Action(key="tune", label=f"Tune {kernel}", enabled=idle and bool(kernel)),
        Action(key="resume", label=label, enabled=idle and resumable),
        Action(key="stop", label="Stop", enabled=not idle),
    )


def state_of(chosen: Chosen) -> Note:
    """How the run that is chosen stands, what can be done about it, and what else this page has begun."""
    run, job = chosen.run, chosen.job
    lines = []
    failed = job is not None and job.error is not None
    if job is not None and job.error is not None:
        hint = f" ({job.error.hint})" if job.error.hint else ""
        lines.append(f"The run that this page began last has failed: {job.error.message}{hint}")
    if job is not None and job.running and not chosen.here:
        lines.append("This page begins a run." if job.subject is None else f"This page runs {job.subject}: see there.")
    if run is not None:
        lines.append(_state_of(run, here=chosen.here))
    else:
        kernel = chosen.kernel.value
        lines.append(
            f"{kernel} has not been tuned. `ckwatch tune {kernel}` looks for its fastest instances, here and now: "
            "what it tries appears in this view. `ckwatch web --allow-changes` has a button for it."
            if kernel
            else "There is no kernel to tune: `ckwatch init` writes one."
        )
    return Note(key="state", text="\n".join(lines), kind="error" if failed else "text")


def _state_of(run: TuningRun, *, here: bool) -> str:
    if here:
        return "Running, begun on this page: it ends with the page's server, and can be resumed."
    if run.running:
        return "Running in another process: Ctrl-C stops it there, and it can be resumed."
    if run.ended:
        return f"Ended: {run.ended}."
    how = (
        f"`ckwatch tune {run.kernel}` with the same options resumes it."
        if run.resumable
        else "Only the program that gave its instances can resume it."
    )
    return f"Interrupted{f' by an error: {run.error}' if run.error else ''}. {how}"


async def choose_all(feed: Feed, query: Query) -> tuple[Chosen, TextPlace | None]:
    """Return the choice, and the place of the kernel's file."""
    runs = await feed.client.tuning_runs()
    files = (await feed.client.workspace()).kernel_names if feed.connected else {}
    kernels = {*files.values(), *(row.kernel for row in feed.units.values())}
    chosen = chosen_of(query, runs, sorted(kernels), feed.jobs)
    path = next((path for path, name in files.items() if name == chosen.kernel.value), None)
    return chosen, None if path is None else TextPlace(path, 0)


async def show(feed: Feed, query: Query) -> Content:
    """The whole view."""
    chosen, kernel_file = await choose_all(feed, query)
    kernel, run = chosen.kernel.value, chosen.run
    state = state_of(chosen)
    if run is None:
        return Content(title=kernel, blocks=(chosen.kernel, *actions_of(chosen), state))
    shape = choose("shape", "Shape", run.shapes, query)
    record = await feed.client.tuning_record(run.id)
    await to_thread.run_sync(import_module, "ckwatch_web.views.tuning_run")  # too slow for an event loop
    from ckwatch_web.views.tuning_run import Texts, blocks_of

    texts = Texts(units=feed.units, kernel_file=kernel_file)
    blocks = await to_thread.run_sync(lambda: blocks_of(record, shape.value, texts))
    title = f"{kernel} on {run.arch}, run {run.id}"
    return Content(title=title, blocks=(chosen.kernel, chosen.runs, shape, *actions_of(chosen), state, *blocks))


async def tune(feed: Feed, query: Query) -> str:
    """Begin a run with defaults, or go on with one."""
    chosen, _ = await choose_all(feed, query)
    budget = chosen.budget.value
    return await _begin(feed, chosen.kernel.value, budget_s=None if budget == NO_BUDGET else float(budget))


async def resume(feed: Feed, query: Query) -> str:
    """Go on with the run that is chosen, or begin another one with its options if it has ended."""
    chosen, _ = await choose_all(feed, query)
    run = chosen.run
    if run is None or not run.resumable or run.running:
        raise CkwatchError("there is no run to resume")
    return await _begin(
        feed, run.kernel, shapes=run.shapes, arch=run.arch, devices=run.devices, strategy=run.strategy, seed=run.seed,
        budget_s=run.budget_s, measurements=run.measurements, patience=run.patience, racing=run.racing, jobs=run.jobs,
    )  # fmt: skip


async def _begin(feed: Feed, kernel: str, **options: Any) -> str:
    async def work(job: BackgroundJob) -> None:
        async with feed.client.tune(kernel, **options) as tuning:
            feed.tell(job, tuning.id)
            await tuning.finish()

    job = feed.start(job_name(kernel), work)
    await job.known.wait()
    if job.error is not None:
        raise job.error
    return f"run {job.subject} goes on until it ends, or this page's server does"


async def stop(feed: Feed, query: Query) -> str:
    """End the run that this page has begun."""
    chosen, _ = await choose_all(feed, query)
    job = chosen.job
    if job is None or not job.running:
        raise CkwatchError("this page runs none")
    job.scope.cancel()
    await job.ended.wait()
    return "stopped" if job.subject is None else f"run {job.subject} is stopped, and can be resumed"


def depends(feed: Feed, _query: Query) -> Hashable:
    """The runs of all processes, what this page has begun, and which kernels there are."""
    kernels = frozenset(row.kernel for row in feed.units.values())
    return feed.follow_tuning(), feed.jobs_revision, feed.connected, kernels


ACTIONS = {"tune": tune, "resume": resume, "stop": stop}
