"""Which devices code runs on, and on which of them its times may be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ckwatch.model.gpu_specs import Device
from ckwatch.model.targets import GENERIC

AUTO = "auto"

AnyDevice = TypeVar("AnyDevice", bound=Device)


def names_another_device(wanted: str, kind: str) -> bool:
    """Return True if `wanted` chooses among devices of this kind, so that no other one of them is taken in its
    place."""
    name = wanted.rpartition("/")[2]
    return name == kind or name.startswith((f"{kind}:", "0000:"))


def devices_for(devices: Iterable[AnyDevice], kind: str, arch: str, wanted: str = AUTO) -> tuple[AnyDevice, ...]:
    """The devices that code of a kind (`hip`, `cuda`, `cpu`) for `arch` is timed on, the one to be preferred first.

    What `wanted` names, if that is of the kind; else the first of `devices` that fits and those that are like it, on
    other machines too. A processor of another machine counts only where it is named: others compile there.
    """
    there = [device for device in devices if device.kind == kind]
    named = [device for device in there if device.is_called(wanted)]
    if named:
        return tuple(device for device in named if can_run(arch, device))
    if names_another_device(wanted, kind):
        return ()
    fitting = [device for device in there if can_run(arch, device) and not (kind == "cpu" and device.machine)]
    fitting.sort(key=lambda device: bool(device.machine))
    return tuple(device for device in fitting if are_alike(device, fitting[0]))


def are_alike(one: Device, other: Device) -> bool:
    """Return True if two devices are the same product, so that times on them can be compared."""
    return (one.description, one.arch) == (other.description, other.arch)


def preferred(devices: Sequence[AnyDevice], last: str) -> AnyDevice:
    """The one of these devices with the key `last`, so that new times compare with old ones; else the first."""
    return next((device for device in devices if device.address == last), devices[0])


def can_run(arch: str, device: Device) -> bool:
    """Return True if code for `arch` runs on `device`.

    AMD: the same processor or a generic target of it, and each target feature that both name (`:xnack-`) set alike.
    NVIDIA: the same major version and at least the minor one, with `a` exactly the version, with `f` the same family
    (CUDA programming guide, "Compute capabilities"). The CPU's is `host`.
    """
    if device.kind == "cuda":
        return _runs_on_cuda(arch, device.arch)
    name, *features = arch.split(":")
    own_name, *own_features = device.arch.split(":")
    own = {feature[:-1]: feature[-1:] for feature in own_features}
    runs = name == own_name or own_name in GENERIC.get(name, ())
    return runs and all(own.get(feature[:-1], feature[-1:]) == feature[-1:] for feature in features)


def _runs_on_cuda(arch: str, own: str) -> bool:
    wanted, present = _capability(arch), _capability(own)
    if wanted is None or present is None:
        return arch == own
    (major, minor, suffix), (own_major, own_minor, _) = wanted, present
    if suffix == "a":
        return (major, minor) == (own_major, own_minor)
    return major == own_major and minor <= own_minor


def _capability(arch: str) -> tuple[int, int, str] | None:
    """`sm_90a` → (9, 0, "a")."""
    digits = arch.removeprefix("sm_").removeprefix("compute_")
    suffix = digits[-1:] if digits[-1:] in ("a", "f") else ""
    digits = digits.removesuffix(suffix)
    return (int(digits[:-1]), int(digits[-1]), suffix) if len(digits) > 1 and digits.isdecimal() else None
