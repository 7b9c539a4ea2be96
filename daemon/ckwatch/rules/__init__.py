"""What makes Composable Kernel reject an instance, checked in milliseconds, before any compiler runs."""

from ckwatch.rules.checking import OPERATIONS, check
from ckwatch.rules.diagnosis import diagnose
from ckwatch.rules.emission import EmittedInstance, emitted_instances
from ckwatch.rules.model import DeviceOperation, Rule, Violation
from ckwatch.rules.reference import rules_of

__all__ = [
    "OPERATIONS",
    "DeviceOperation",
    "EmittedInstance",
    "Rule",
    "Violation",
    "check",
    "diagnose",
    "emitted_instances",
    "rules_of",
]
