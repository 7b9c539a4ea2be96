"""Losses of a tuning run that is killed again and again: its winner, or measurements that are done twice.

    python -m benchmarks.killed_tuning [--kills 50] [--seed 0]

A kernel on this machine's processor, whose instances' times differ clearly, is tuned once without a disturbance. Then
it is tuned by a process that is killed (SIGKILL) after a random time, every second time together with the daemon, and
started again, until it has been killed so often; then it may end. The lines say: the winners of both, how many
measurements the history has, and how many units and shapes were measured more than once.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import anyio

from ckwatch import connect
from ckwatch.wire.endpoint import endpoint_of

TEMPLATE = """\
{{ header("cpp") }}
{{ globals("cpp") }}
extern "C" PT_EXPORT {{ def_kernel(inputs=[X, W, inv_scale_x, inv_scale_w, Bias], outputs=[Y]) }} {
    (void)workspace, (void)stream, (void)kBatch;
    {% for name in size_args() %}(void){{ name }}, {% endfor %}(void)0;
    if (workspace_size != nullptr) return *workspace_size = 0, 0;
    // the further from A = 7 and B = 3, the slower
    constexpr int times = {{ 1 + (A - 7) | abs + (B - 3) | abs }};
    for (volatile int again = 0; again < times; again = again + 1)
        for (int64_t m = 0; m < M; ++m)
            for (int64_t n = 0; n < N; ++n) {
                float sum = 0;
                for (int64_t k = 0; k < K; ++k) sum += X[m * LDA + k] * W[k * LDB + n];
                Y[m * LDC + n] = sum;
            }
    return 0;
}
"""
KERNEL = """\
template = "slow.cpp.j2"

[operation]
kind = "gemm"
a = { dtype = "f32", layout = "row" }
b = { dtype = "f32", layout = "row" }
c = { dtype = "f32", layout = "row" }

[[shape]]
name = "64"
M = 64
N = 64
K = 64

[[sweep]]
name = "s"
tune = true

[sweep.parameters]
A = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
B = [1, 2, 3, 4, 5, 6, 7, 8]
"""
RUN = """\
import anyio, json
from ckwatch import connect

async def main() -> None:
    async with connect(".", client_name="tuner") as client, client.tune("slow", seed=%d, patience=12) as run:
        record = await run.finish()
        print(json.dumps({"best": run.best("64").instance, "measured": run.measured, "ended": record.run.ended}))

anyio.run(main)
"""


def workspace(folder: Path, name: str) -> Path:
    """A workspace of its own."""
    root = folder / name
    (root / "templates").mkdir(parents=True)
    (root / "templates/slow.cpp.j2").write_text(TEMPLATE)
    (root / "slow.kernel.toml").write_text(KERNEL)
    store = f'[store]\nfolder = "{root / "store"}"\n'
    (root / "ckwatch.toml").write_text(f'[workspace]\nkernels = ["*.kernel.toml"]\n[bench]\nwhen = "request"\n{store}')
    return root


async def trusted(root: Path) -> int:
    """Trust the workspace; the process of its daemon."""
    async with connect(root, trust=True) as client:
        return (await client.status()).pid


def finished(root: Path, seed: int, after_s: float | None) -> dict[str, object] | None:
    """A tuning run in a process of its own; None for one that was killed `after_s` seconds."""
    process = subprocess.Popen([sys.executable, "-c", RUN % seed], cwd=root, stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=after_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    if process.returncode:
        raise SystemExit(f"the tuning run ended with status {process.returncode}")
    return dict(json.loads(output))


def measured(root: Path) -> Counter[tuple[str, str]]:
    """How often each unit was measured on a shape, as the history has it."""
    path = endpoint_of(root).log.with_name("history.sqlite")
    with sqlite3.connect(path) as history:
        rows = history.execute("SELECT unit, shape, count(DISTINCT taken_at) FROM timing GROUP BY unit, shape")
        return Counter({(unit, shape): count for unit, shape, count in rows})


def main() -> int:
    """The exit status: 1 where a winner differs or something was measured twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)  # noqa: S311  # times to kill at
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        calm, killed = workspace(Path(temporary), "calm"), workspace(Path(temporary), "killed")
        anyio.run(trusted, calm)
        begun = time.monotonic()
        expected = finished(calm, options.seed, None)
        alone_s = time.monotonic() - begun
        assert expected is not None  # nobody killed it
        print(f"undisturbed: {expected['best']}, {expected['measured']} measurements in {alone_s:.0f} s", flush=True)
        kills = daemons = early = 0
        found: dict[str, object] | None = None
        while kills < options.kills:
            daemon = anyio.run(trusted, killed)
            ended = finished(killed, options.seed, rng.uniform(0.5, max(1.5, 3 * alone_s / options.kills + 1.0)))
            if ended is not None:  # it came to its end before it could be killed: what is known takes it there
                early += 1
                found = ended
            kills += 1
            if kills % 2:
                os.kill(daemon, signal.SIGKILL)
                daemons += 1
        found = finished(killed, options.seed, None)
        assert found is not None
        counts = measured(killed)
        twice = {where: count for where, count in counts.items() if count > 1}
        print(f"killed {kills} times, the daemon {daemons} times; {early} runs ended before that: {found['best']}")
        print(f"{sum(counts.values())} measurements of {len(counts)} instances, {len(twice)} of them more than once")
        for root in (calm, killed):
            os.kill(anyio.run(trusted, root), signal.SIGTERM)
    same = found["best"] == expected["best"]
    print("same winner, nothing measured twice" if same and not twice else "the goal is missed")
    return int(not same or bool(twice))


if __name__ == "__main__":
    sys.exit(main())
