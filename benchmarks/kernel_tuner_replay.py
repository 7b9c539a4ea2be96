"""Runs Kernel Tuner's strategies on measured spaces; `benchmarks.search` compares with what this writes.

A program of its own, for an environment that has Kernel Tuner, which is no dependency of ckwatch:

    python -m venv kt && kt/bin/pip install kernel_tuner==1.5.0 scikit-optimize pyatf
    kt/bin/python benchmarks/kernel_tuner_replay.py OUT.json FILE… [--seeds 100] [--strategies pso mls]

Each strategy has its default options and Kernel Tuner's own simulation of a runner, which counts a configuration once.
Each run has a search space of its own: one that is shared keeps lists of neighbours, from which random moves are drawn,
so that a run goes where earlier ones were. One that ends before its budget is spent begins again. A run ends when it is
within 1 % of the best. Strategies that take seconds for each evaluation are given fewer of them, `SLOW`, and fewer
seeds, as many as `--seconds` allows; a run is ended after `LONGEST_RUN_S` of processor time, and what it had not
reached counts as not reached. Runs that OUT has of the same budget are kept, and those that are missing are added;
delete OUT to run all anew.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import random
import signal
import sys
import time
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

WITHIN = (10, 5, 1)
"""Percent of the best."""

STRATEGIES = {
    "random_sample": "random_sample",
    "greedy_ils": "greedy_ils",
    "greedy_mls": "greedy_mls",
    "ordered_greedy_mls": "ordered_greedy_mls",
    "mls": "mls",
    "genetic_algorithm": "genetic_algorithm",
    "simulated_annealing": "simulated_annealing",
    "pso": "pso",
    "firefly_algorithm": "firefly_algorithm",
    "diff_evo": "diff_evo",
    "dual_annealing": "dual_annealing",
    "basinhopping": "basinhopping",
    "minimize": "minimize",
    "HybridVNDX": "gen_hybrid_vndx",
    "AdaptiveTabuGreyWolf": "gen_adaptive_tabu_greywolf",
    "bayes_opt": "bayes_opt",
    "skopt": "skopt",
    "pyatf_strategies": "pyatf_strategies",
    "nsga2": "pymoo_minimize",
    "nsga3": "pymoo_minimize",
    "brute_force": "brute_force",
}
"""All that it has, by the names of their modules."""

SLOW = {"bayes_opt": 150, "skopt": 150}
"""Evaluations of one run."""

LONGEST_RUN_S = 8

RESTARTS_WITHOUT_NEWS = 20


class ReachedError(BaseException):
    """The run is within the last percentage."""


def read_space(path: Path) -> tuple[dict[str, list[Any]], dict[str, dict[tuple[Any, ...], float | None]]]:
    """Parameters with their values, and for each GPU the time of each configuration in ms, None where it failed."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    gpus = [name for name in rows[0] if name.endswith("_ms")]
    names = [name for name in rows[0] if name not in gpus]
    parameters: dict[str, list[Any]] = {}
    for name in names:
        texts = list(dict.fromkeys(row[name] for row in rows))
        values = [_number(text) for text in texts]
        numeric = not any(isinstance(value, str) for value in values)
        parameters[name] = sorted(values) if numeric else sorted(texts)
    as_given = {
        name: {str(text): value for text in {row[name] for row in rows} for value in own if _same(text, value)}
        for name, own in parameters.items()
    }
    times: dict[str, dict[tuple[Any, ...], float | None]] = {gpu.removesuffix("_ms"): {} for gpu in gpus}
    for row in rows:
        configuration = tuple(as_given[name][row[name]] for name in names)
        for gpu in gpus:
            times[gpu.removesuffix("_ms")][configuration] = float(row[gpu]) if row[gpu] else None
    return parameters, times


def _same(text: str, value: object) -> bool:
    return text == value or _number(text) == value


def _number(text: str) -> Any:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def replay(
    strategy: str,
    parameters: dict[str, list[Any]],
    times: dict[tuple[Any, ...], float | None],
    seed: int,
    budget: int,
    whole_budget: int,
) -> list[int | None]:
    """The evaluations until within each of `WITHIN`, None where the budget ended before."""
    import numpy as np
    from kernel_tuner import util
    from kernel_tuner.interface import Options
    from kernel_tuner.runners.simulation import SimulationRunner
    from kernel_tuner.searchspace import Searchspace

    listed = {str(number): dict(zip(parameters, one, strict=True)) for number, one in enumerate(times)}
    searchspace = Searchspace(None, None, None, from_cache={"tune_params": parameters, "cache": listed})
    random.seed(seed)
    np.random.seed(seed)
    best = min(time for time in times.values() if time is not None)
    reached: list[int | None] = [None] * len(WITHIN)
    evaluated: set[tuple[Any, ...]] = set()

    class Runner(SimulationRunner):  # type: ignore[misc]
        """Notes when an evaluation is near the best."""

        def run(self, parameter_space: Any, tuning_options: Any) -> Any:
            space = [tuple(one) for one in parameter_space]
            for one in space:
                if one in times and one not in evaluated:
                    if len(evaluated) >= budget:
                        raise ReachedError
                    evaluated.add(one)
                    found = times[one]
                    for index, percent in enumerate(WITHIN):
                        if found is not None and reached[index] is None and found <= best * (1 + percent / 100):
                            reached[index] = len(evaluated)
                    if reached[-1] is not None:
                        raise ReachedError
            return super().run(space, tuning_options)

    names = list(parameters)
    cache: dict[str, dict[str, Any]] = {}
    for configuration, milliseconds in times.items():
        result = dict(zip(names, configuration, strict=True))
        result |= dict.fromkeys(("compile_time", "verification_time", "benchmark_time"), 0.0)
        if milliseconds is None:
            result["__error__"] = util.RuntimeFailedConfig()
        result["time"] = util.RuntimeFailedConfig() if milliseconds is None else milliseconds
        cache[",".join(map(str, configuration))] = result
    runner = Runner(None, Options(kernel_name="replay"), Options(quiet=True), 1, [])
    module = import_module(f"kernel_tuner.strategies.{STRATEGIES[strategy]}")
    if hasattr(module, "OptAlgWrapper") or not hasattr(module, "tune"):
        from kernel_tuner.interface import strategy_map

        module = strategy_map[strategy]
    unheard = 0
    signal.signal(signal.SIGPROF, _end_run)
    with contextlib.suppress(ReachedError):
        signal.setitimer(signal.ITIMER_PROF, LONGEST_RUN_S)
        while len(evaluated) < budget and unheard < RESTARTS_WITHOUT_NEWS:
            before = len(evaluated)
            options = Options(
                strategy_options=Options({} if strategy == "brute_force" else {"max_fevals": whole_budget}),
                objective=["time"],
                objective_higher_is_better=[False],
                tune_params=parameters,
                restrictions=None,
                restrictions_unmodified=None,
                seed=seed,
                cache=cache,
                metrics=None,
                verbose=False,
                max_fevals=whole_budget,
                budget=util.TuningBudget(None, whole_budget),
            )
            options["strategy"] = strategy
            module.tune(searchspace, runner, options)
            unheard = unheard + 1 if len(evaluated) == before else 0
    signal.setitimer(signal.ITIMER_PROF, 0)
    return reached


def _end_run(*_: object) -> None:
    raise ReachedError


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument(
        "--seconds", type=float, default=120, help="processor time per strategy and GPU; fewer seeds where it is spent"
    )
    parser.add_argument("--strategies", nargs="*", default=list(STRATEGIES), choices=list(STRATEGIES))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    written = json.loads(options.out.read_text()) if options.out.exists() else {}
    budget = written.get("budget")
    written |= {"kernel_tuner": version("kernel_tuner"), "budget": options.budget, "within_percent": list(WITHIN)}
    spaces = written.setdefault("spaces", {})
    for path in options.files:
        parameters, every = read_space(path)
        for gpu, times in every.items():
            for strategy in options.strategies:
                begun = time.process_time()
                own = spaces.setdefault(path.name, {}).setdefault(gpu, {})
                kept = own.get(strategy, {}) if written["budget"] == budget else {}
                rows: list[list[int | None]] = [] if kept.get("failure") else kept.get("evaluations", [])
                failure = ""
                limit = min(options.budget, SLOW.get(strategy, options.budget))
                for seed in range(len(rows), options.seeds):
                    try:
                        with contextlib.redirect_stdout(io.StringIO()):
                            rows.append(replay(strategy, parameters, times, seed, limit, options.budget))
                    except Exception as error:  # noqa: BLE001  # a strategy that fails is one that has no result
                        failure = f"{type(error).__name__}: {error}"
                        rows.append([None] * len(WITHIN))
                        if all(one == [None] * len(WITHIN) for one in rows) and len(rows) >= 3:
                            break
                    if time.process_time() - begun > options.seconds:
                        break
                own[strategy] = {"evaluations": rows, "seeds": len(rows)} | ({"failure": failure} if failure else {})
                spent = time.process_time() - begun
                middle = [sorted(one[i] or 10**9 for one in rows)[len(rows) // 2] for i in range(len(WITHIN))]
                print(path.name, gpu, strategy, len(rows), "seeds", middle, f"{spent:.0f} s", failure[:200], flush=True)
                options.out.write_text(json.dumps(written, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
