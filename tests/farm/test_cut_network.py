"""A worker on another network, under TLS, whose link is cut: nothing is said any more, and nobody is told."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from benches.daemon_bench import SECONDS, Bench, build
from ckwatch.core.events import MAIN
from ckwatch.farm.certificates import AUTHORITY, MEMBER, MEMBER_KEY, make_certificates
from farm.test_daemon_with_farm import NAMES, slots, use, warned
from farms.farm_bench import FarmBench
from helpers.workspaces import gemm_kernel


class Network:
    """A network namespace and a link to it; `cut` ends the link. Only root can make one."""

    def __init__(self) -> None:
        number = os.getpid() % 200
        self.namespace = f"ckw{os.getpid()}"
        self._near, self._far = f"ckn{os.getpid()}", f"ckf{os.getpid()}"
        self.host, there = f"10.213.{number}.1", f"10.213.{number}.2"
        ip("netns", "add", self.namespace)
        ip("link", "add", self._near, "type", "veth", "peer", "name", self._far)
        ip("link", "set", self._far, "netns", self.namespace)
        ip("addr", "add", f"{self.host}/24", "dev", self._near)
        ip("link", "set", self._near, "up")
        ip("-n", self.namespace, "addr", "add", f"{there}/24", "dev", self._far)
        ip("-n", self.namespace, "link", "set", self._far, "up")
        ip("-n", self.namespace, "link", "set", "lo", "up")

    def cut(self) -> None:
        """From now on nothing passes."""
        ip("link", "set", self._near, "down")

    def close(self) -> None:
        """Remove it."""
        for arguments in (("link", "del", self._near), ("netns", "del", self.namespace)):
            subprocess.run(["ip", *arguments], check=False, stderr=subprocess.DEVNULL)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("only root can make networks")
    try:
        made = Network()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network can be made here: {error.stderr.decode(errors='replace').strip()}")
    yield made
    made.close()


@pytest.fixture
def farm(network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FarmBench]:
    certificates = tmp_path / "certificates"
    make_certificates(certificates)
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL", "5s")
    files = (("ca-file", AUTHORITY), ("cert", MEMBER), ("key", MEMBER_KEY))
    security = [part for name, file in files for part in (f"--tls-{name}", str(certificates / file))]
    bench = Bench(tmp_path)
    bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {name: {"Tile": n} for n, name in enumerate(NAMES)}))
    made = FarmBench(bench, security, network.host)
    made.start_scheduler()
    yield made
    made.close()
    for pid in bench.alive:
        os.kill(pid, signal.SIGKILL)


async def test_what_a_lost_worker_had_is_done_here(farm: FarmBench, network: Network) -> None:
    farm.start_worker(threads=2, namespace=network.namespace)
    use(farm)
    path = farm.bench.root / "ckwatch.toml"
    farm.bench.write("ckwatch.toml", f'{path.read_text()}certificates = "{farm.bench.folder}/certificates"\n')
    async with farm.bench.open() as daemon:
        await slots(daemon, 2)
        farm.bench.will("slow")
        async with daemon.builds.build(MAIN, ("k/a", "k/b", "k/c"), force=False, check_only=False) as lines:
            await farm.bench.started(3)
            network.cut()
            farm.bench.will("slow", now=False)
            for pid in farm.bench.alive:  # what the lost one has done by now nobody will hear
                os.kill(pid, signal.SIGKILL)
            with anyio.fail_after(SECONDS):
                found = [line.unit.outcome async for line in lines if line.event == "unit" and line.unit is not None]
        assert sorted(map(str, found)) == ["built", "built", "faulted"], "the one that was killed here, and those there"
        await warned(daemon, "compiles run on this machine")
        await build(daemon)
        units = await daemon.snapshots.units(MAIN, None)
        assert {unit.outcome for unit in units} == {"built"}
