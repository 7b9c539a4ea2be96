"""Device passes that are kept by what the device can see of a source, so that an edit of host code repeats none."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from ckwatch.compile.dependencies import not_there
from ckwatch.compile.keys import key_of
from ckwatch.compile.passes import OBJECT_OF, Passed
from ckwatch.compile.plan import Side
from ckwatch.compile.request import CompileRequest, CompilerToolchain
from ckwatch.compile.running import CompileJob
from ckwatch.devicetext import device_text
from ckwatch.store import ArtifactStore, HeaderSet, LostArtifactError, Record, Roots, StoreError
from ckwatch.store.contents import Look

PRODUCT = "device-object"


@dataclass(frozen=True, slots=True)
class DevicePass:
    """One in the store, under `key`; `text` is what the device can see."""

    key: str
    text: str
    request: CompileRequest
    toolchain: CompilerToolchain
    store: ArtifactStore

    def find(self, job: CompileJob, look: Look | None) -> Passed | None:
        """The pass, with its object in the job's folder; runs in a thread."""
        roots = Roots(self.toolchain.roots)
        artifact = self.store.lookup(self.key, roots, look)
        headers = None if artifact is None else self.store.headers_of(artifact)
        file = None if artifact is None else artifact.product(PRODUCT)
        if headers is None or file is None:
            return None
        try:
            (job.folder / OBJECT_OF[Side.DEVICE]).write_bytes(self.store.load(file))
        except (OSError, LostArtifactError, StoreError):  # evicted at this moment, damaged, or no space
            return None
        return Passed(Side.DEVICE, job, tuple(map(roots.expand, headers.present)), None)

    def keep(self, done: Passed) -> None:
        """Store a pass that went well; runs in a thread. A store that cannot be written is left alone."""
        folders = [*self.request.include_folders, *self.toolchain.include_folders]
        job = done.job
        observed = HeaderSet.observe(
            done.headers,
            not_there(done.headers, (), folders),
            self.store.contents,
            Roots(self.toolchain.roots),
            job.begun_ns,
        )
        if observed is None:
            return
        record = Record(
            ok=True,
            symbol=self.request.symbol,
            arch=self.request.arch,
            language=self.request.language.value,
            toolchain=self.toolchain.identity,
            source=self.request.language.source_name,
            commands=tuple(job.commands),
        )
        copy = job.folder / f"kept-{OBJECT_OF[Side.DEVICE]}"
        with suppress(OSError, StoreError):
            shutil.copyfile(job.folder / OBJECT_OF[Side.DEVICE], copy)
            publish = partial(self.store.publish, self.key, observed, record, log="", products={PRODUCT: copy})
            publish(source=self.text.encode("utf-8", "surrogateescape"), replace_existing=True)


def device_pass_of(request: CompileRequest, toolchain: CompilerToolchain, store: ArtifactStore) -> DevicePass | None:
    """The device pass of `request`; None when the device can see all of the source."""
    text = device_text(request.source)
    if text == request.source:
        return None
    key = key_of(
        request,
        toolchain,
        Roots(toolchain.roots),
        text=text,
        arch=request.arch,
        more=["device pass"],
        products=[PRODUCT],
    )
    return DevicePass(key, text, request, toolchain, store)
