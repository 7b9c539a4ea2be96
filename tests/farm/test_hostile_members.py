"""Members of a farm that send objects to unpickle: nothing of theirs runs in a daemon, and it says who sent what."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from distributed.protocol.core import dumps
from distributed.protocol.serialize import ToPickle, to_serialize

from benches.daemon_bench import SECONDS, Bench, build
from ckwatch.farm.certificates import AUTHORITY, MEMBER, MEMBER_KEY, make_certificates, security_of
from ckwatch.farm.connection import FarmConnection, ListedWorker
from ckwatch.farm.messages import WorkerFacts
from ckwatch.farm.plain_data import (
    PlainClient,
    ReceivedBytes,
    TaskError,
    UnacceptableError,
    decode,
    encode,
    opened,
    read_message,
)
from farm.test_daemon_with_farm import slots, use
from farms.farm_bench import FarmBench, until
from farms.farm_hostile_workers import IN_DESCRIPTIONS, IN_RESULTS
from farms.farm_payload import Payload
from helpers.workspaces import gemm_kernel

HERE = Path(__file__).parents[1]
NAMES = "abcd"


@pytest.fixture
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "evidence"
    monkeypatch.setenv("FARM_EVIDENCE", str(path))
    return path


@pytest.fixture
def farm(tmp_path: Path, evidence: Path) -> Iterator[FarmBench]:  # set before processes begin
    """Under TLS, without a scheduler yet."""
    certificates = tmp_path / "certificates"
    make_certificates(certificates)
    files = (("ca-file", AUTHORITY), ("cert", MEMBER), ("key", MEMBER_KEY))
    security = [part for name, file in files for part in (f"--tls-{name}", str(certificates / file))]
    bench = Bench(tmp_path)
    bench.write("k.kernel.toml", gemm_kernel("k.hip.j2", {name: {"Tile": n} for n, name in enumerate(NAMES)}))
    made = FarmBench(bench, security)
    yield made
    made.close()


def join(farm: FarmBench) -> Path:
    """Name the farm in the workspace; the folder of its certificates."""
    use(farm)
    certificates = farm.bench.folder / "certificates"
    text = (farm.bench.root / "ckwatch.toml").read_text()
    farm.bench.write("ckwatch.toml", f'{text}certificates = "{certificates}"\n')
    return certificates


async def test_nothing_is_open_beside_scheduler_and_workers(farm: FarmBench) -> None:
    """dask's HTTP servers answer every user of the machine, without a certificate."""
    farm.start_scheduler()
    farm.start_worker(preload="ckwatch.farm.worker", XDG_CACHE_HOME=str(farm.bench.folder / "nothing"))
    security = await anyio.to_thread.run_sync(security_of, farm.bench.folder / "certificates")
    connection = await FarmConnection.open(farm.address, security)
    with anyio.fail_after(SECONDS):
        while not connection.workers:
            await connection.refresh()
    scheduler: Any = connection._client.scheduler
    found = await connection._on_client_loop(partial(scheduler.identity, n_workers=-1))
    ports = [one["services"]["dashboard"] for one in (found, *found["workers"].values())]
    await connection.close()
    assert len(ports) == 2
    for port in ports:
        with pytest.raises(OSError, match="onnect"):
            await anyio.connect_tcp("127.0.0.1", port)


async def test_a_scheduler_runs_nothing_that_it_is_sent(farm: FarmBench, evidence: Path) -> None:
    farm.start_scheduler()
    security = await anyio.to_thread.run_sync(security_of, farm.bench.folder / "certificates")
    client: Any = PlainClient(farm.address, security, SECONDS)
    await client
    with pytest.raises(Exception, match="explicitly disallowed"):
        await client.scheduler.run_function(function=pickle.dumps(print))
    with pytest.raises(Exception, match=re.escape("builtins.exec is not a name that a farm's scheduler loads")):
        await client.scheduler.set_metadata(keys=["a"], value=ToPickle(Payload()))
    assert isinstance(await client.submit(print, "it", key="it").exception(), TaskError)
    await client.close()
    assert not ran(evidence)


def start_hostile_workers(farm: FarmBench, certificates: Path) -> dict[str, str]:
    """Their addresses by attack."""
    folder = farm.bench.folder
    addresses = folder / "addresses"
    command = [sys.executable, str(HERE / "farms/farm_hostile_workers.py"), farm.address, str(certificates)]
    environment = {**os.environ, "FARM_BENCH": str(folder), "FARM_ADDRESSES": str(addresses)}
    with (folder / "worker.log").open("ab") as log:
        farm.workers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    until(addresses.exists, "hostile workers")
    found: dict[str, str] = json.loads(addresses.read_text())
    return found


def ran(evidence: Path) -> bool:
    """Return True if a payload was unpickled anywhere."""
    return evidence.exists()


async def test_hostile_workers(farm: FarmBench, evidence: Path) -> None:
    farm.start_scheduler()
    certificates = join(farm)
    hostile = start_hostile_workers(farm, certificates)
    async with farm.bench.open() as daemon:
        with anyio.fail_after(SECONDS):
            while True:
                lines = await build(daemon, force=True)
                assert {line.unit.outcome for line in lines.values() if line.unit} == {"built"}
                said = (await daemon.statuses.status()).warnings.get("farm", "")
                if all(address in said for address in hostile.values()):
                    break
        assert set(hostile) == {*IN_RESULTS, *IN_DESCRIPTIONS}
        assert said.count("sent something unacceptable") == len(hostile)
        assert "\x1b" not in said
        assert not ran(evidence)
        farm.start_worker()  # an honest one is used as ever
        await slots(daemon, 1)
        await build(daemon, force=True)
    assert not ran(evidence)


@pytest.mark.parametrize("attack", ["objects", "answers", "stream"])
async def test_a_hostile_scheduler(
    farm: FarmBench, evidence: Path, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARM_ATTACK", attack)
    monkeypatch.setenv("FARM_BENCH", str(farm.bench.folder))
    farm.start_scheduler(str(HERE / "farms/farm_hostile_scheduler.py"))
    join(farm)
    async with farm.bench.open() as daemon:
        wanted = {"objects": "unacceptable", "answers": "does not answer", "stream": "is lost"}[attack]
        with anyio.fail_after(SECONDS):
            while wanted not in (await daemon.statuses.status()).warnings.get("farm", ""):
                lines = await build(daemon, force=True)
                assert {line.unit.outcome for line in lines.values() if line.unit} == {"built"}
    assert not ran(evidence)


def test_dask_s_own_client_would_run_it(farm: FarmBench, evidence: Path) -> None:
    """So that the tests above test something."""
    farm.start_scheduler(str(HERE / "farms/farm_hostile_scheduler.py"))
    security = ", ".join(
        f"{name}={str(farm.bench.folder / 'certificates' / file)!r}"
        for name, file in (("tls_ca_file", AUTHORITY), ("tls_client_cert", MEMBER), ("tls_client_key", MEMBER_KEY))
    )
    program = f"from distributed import Client, Security; Client({farm.address!r}, security=Security({security}))"
    farm.workers.append(subprocess.Popen([sys.executable, "-c", program]))
    until(evidence.exists, "code that ran")


@pytest.mark.parametrize(
    "told",
    [{"nthreads": "2"}, {"nthreads": float("inf")}, {"resources": {"a": -1}}, {"metrics": 1}, {"resources": None}],
)
async def test_a_worker_s_own_figures_are_checked(told: dict[str, Any]) -> None:
    connection = FarmConnection(asyncio.get_running_loop(), cast("Any", None))
    honest = {"host": "box", "nthreads": 2, "resources": {"a": 2.0}, "metrics": {"task_counts": {"executing": 1}}}
    assert connection._listed("tls://box:1", honest) == ListedWorker("tls://box:1", "box", 2, {"a": 2.0}, 1)
    connection._listed("tls://box:2", {**honest, **told})
    assert connection.refused.keys() == {"tls://box:2"}


def message(value: Any, serializers: Sequence[str] | None = None) -> Any:
    return read_message(dumps({"op": "it", "value": value}, serializers=serializers))["value"]


def test_plain_data_arrives_as_it_is() -> None:
    told = {"a": ("text", 1, 2.5, None, True), "b": {"c": ()}}
    assert message(told) == told
    assert message({1, 2}) == (1, 2)
    assert message({1: "of no name", b"bytes": 2, "name": 3}) == {"name": 3}


def test_bytes_are_opened_by_their_type_alone(evidence: Path) -> None:
    facts = WorkerFacts(machine="box", identities=("1a2b",))
    for sent in (message(encode(facts, WorkerFacts)), message(to_serialize(encode(facts, WorkerFacts)), ["msgpack"])):
        assert isinstance(sent, ReceivedBytes)
        assert opened(sent, WorkerFacts) == facts
    with pytest.raises(UnacceptableError, match="machine: Field required"):
        decode(encode({}, dict), WorkerFacts)
    with pytest.raises(UnacceptableError, match="no message of ckwatch"):
        decode(pickle.dumps(Payload()), WorkerFacts)
    assert not ran(evidence)


@pytest.mark.parametrize(
    ("value", "serializers", "problem"),
    [
        (ToPickle(Payload()), None, "a pickled object"),
        (Payload(), None, "a pickled object"),
        (to_serialize(Payload()), None, "an object serialized as 'pickle'"),
        (to_serialize(b"bytes"), None, "an object serialized as 'dask'"),
        (to_serialize([b"bytes", Payload()]), None, "a collection of objects"),
        (to_serialize("text"), ["msgpack"], "data of type str"),
        ({"__Serialized__": 99}, None, "data that cannot be read"),
        ({"__Serialized__": True, "data": ({}, [])}, None, "data that cannot be read"),
    ],
)  # fmt: skip
def test_an_object_is_named_and_never_loaded(
    evidence: Path, value: Any, serializers: Sequence[str] | None, problem: str
) -> None:
    sent = message(value, serializers)
    assert sent == ReceivedBytes(None, problem)
    with pytest.raises(UnacceptableError, match=re.escape(problem)):
        opened(sent, WorkerFacts)
    assert not ran(evidence)
