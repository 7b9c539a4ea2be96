"""Who is let in by a scheduler, what is open beside it, and what becomes of workers that end."""

from __future__ import annotations

import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import pytest
from distributed import Scheduler, Security
from distributed.comm.core import connect
from distributed.core import Status

from ckwatch.farm import cluster
from ckwatch.farm.certificates import AUTHORITY, MEMBER, MEMBER_KEY, make_certificates, security_of
from ckwatch.model.errors import CkwatchError
from ckwatch.system.installation import command_for_extra
from ckwatch.workspace.settings import FarmSection
from fakes.patience import PATIENCE_S

REFUSED_S = 3
"""How long who is refused tries again."""


@pytest.fixture
async def scheduler(tmp_path: Path) -> AsyncIterator[str]:
    """The address of one as a cluster of ssh or of jobs has it."""
    make_certificates(tmp_path / "farm")
    settings = FarmSection(cluster="ssh", hosts=["a"], port=0)
    options = cluster._scheduler(settings, security_of(tmp_path / "farm"), {"scheduler_options": {"host": "127.0.0.1"}})
    assert options.pop("preload") == ["ckwatch.farm.scheduler"], "which would close this process"
    with dask.config.set(cluster.CONFIGURATION):
        async with Scheduler(**options) as made:
            yield made.address


async def greeted(address: str, timeout_s: float, **arguments: Any) -> None:
    """Connect as clients and workers do."""
    comm = await connect(address, timeout=timeout_s, **arguments)
    await comm.write({"op": "identity", "reply": True})
    try:
        assert (await comm.read())["type"] == "Scheduler"
    finally:
        await comm.close()


@pytest.mark.parametrize("role", ["client", "worker"])
async def test_a_member_is_let_in(scheduler: str, tmp_path: Path, role: str) -> None:
    await greeted(scheduler, PATIENCE_S, **security_of(tmp_path / "farm").get_connection_args(role))


@pytest.mark.parametrize("role", ["client", "worker"])
async def test_a_member_of_another_authority_is_refused(scheduler: str, tmp_path: Path, role: str) -> None:
    other = tmp_path / "other"
    make_certificates(other)
    with pytest.raises(OSError, match="certificate does not match"):
        await greeted(scheduler, REFUSED_S, **security_of(other).get_connection_args(role))
    (other / AUTHORITY).write_bytes((tmp_path / "farm" / AUTHORITY).read_bytes())  # it trusts the scheduler at least
    files = {f"tls_{role}_cert": str(other / MEMBER), f"tls_{role}_key": str(other / MEMBER_KEY)}
    forged = Security(require_encryption=True, tls_ca_file=str(other / AUTHORITY), **files)
    with pytest.raises(OSError, match="unknown ca"):
        await greeted(scheduler, REFUSED_S, **forged.get_connection_args(role))


async def test_who_shows_no_certificate_is_refused(scheduler: str, tmp_path: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(tmp_path / "farm" / AUTHORITY))
    trusting.check_hostname = False
    with pytest.raises(OSError, match="certificate required"):
        await greeted(scheduler, REFUSED_S, ssl_context=trusting, require_encryption=True)
    with pytest.raises(OSError, match="tcp:"):
        await greeted(scheduler.replace("tls:", "tcp:"), REFUSED_S)


class StandIn(SimpleNamespace):
    """A cluster that starts workers which are missing, but for those of `failing`."""

    def __await__(self) -> Any:
        async def correct() -> None:
            missing = self.spec - self.workers.keys()
            for name in missing:
                status = Status.created if name in self.failing else Status.running
                self.workers[name] = SimpleNamespace(status=status)
            if failed := missing & self.failing:
                raise RuntimeError(f"{min(failed)}: no route to host")

        return correct().__await__()


async def test_what_has_ended_is_started_again() -> None:
    made = StandIn(spec={"a", "b"}, failing={"b"}, workers={})
    settings = FarmSection(cluster="ssh", hosts=["a", "b"])
    await cluster.start(made, settings)  # one of two is enough
    assert await cluster.complete(made) == "b: no route to host"
    made.failing.clear()
    made.workers["a"].status = Status.closed
    assert await cluster.complete(made) is None
    assert {one.status for one in made.workers.values()} == {Status.running}


async def test_a_cluster_without_any_worker_is_none() -> None:
    made = StandIn(spec={"a"}, failing={"a"}, workers={})
    with pytest.raises(CkwatchError, match="cannot be started: a: no route to host"):
        await cluster.start(made, FarmSection(cluster="ssh", hosts=["a"]))


async def test_jobs_are_submitted_before_there_are_more_of_them() -> None:
    """So that what a queue says of the first is reported."""
    asked: list[tuple[str, dict[str, int]]] = []
    made = StandIn(spec=set(), failing=set(), workers={})
    made.scale = lambda **jobs: asked.append(("scale", jobs))
    made.adapt = lambda **bounds: asked.append(("adapt", bounds))
    await cluster.start(made, FarmSection(cluster="pbs", workers=2, most_workers=9))
    assert asked == [("scale", {"jobs": 2}), ("adapt", {"minimum_jobs": 2, "maximum_jobs": 9})]


@pytest.mark.parametrize(("kind", "package"), [("slurm", "dask_jobqueue"), ("ssh", "asyncssh")])
def test_packages_that_are_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, package: str
) -> None:
    monkeypatch.delitem(sys.modules, "ckwatch.farm.ssh_worker", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    settings = FarmSection.model_validate({"cluster": kind, "hosts": ["a"] if kind == "ssh" else []})
    with pytest.raises(CkwatchError, match=f"{package} is not installed") as found:
        cluster.make_cluster(settings, None, tmp_path)
    assert found.value.hint == command_for_extra("farm")


async def test_one_that_was_killed_is_not_taken_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    file = cluster.cluster_file(tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text('{"address": "tls://127.0.0.1:1", "pid": 1}')
    assert cluster.running_cluster(tmp_path) is None
    assert cluster.farm_address(FarmSection(cluster="local"), tmp_path) is None
    assert cluster.farm_address(FarmSection(scheduler="tls://box:1"), tmp_path) == "tls://box:1"
