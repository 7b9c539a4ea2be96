"""Run benchmarks, all or those named: `python -m benchmarks`, `python -m benchmarks first_error idle --runs 1`.
`--page` measures nothing and writes the page of the results anew.

What a program measured is written as soon as it is there; one that fails does not keep the others from running.
"""

from __future__ import annotations

import sys
import traceback
from types import ModuleType

from benchmarks import (
    analysis,
    captured_text,
    ci_overhead,
    client_start,
    command_time,
    counted_profiles,
    cpp_answers,
    edit_to_artifact,
    edit_to_compiler,
    eight_instances,
    emulated_kernels,
    emulation,
    farm,
    farm_cores,
    first_build,
    first_error,
    followers,
    header_features,
    idle,
    language_server,
    line_tables,
    machine_step,
    many_files,
    many_units,
    measurement_cpu,
    page,
    rebuilding,
    rendering,
    watching,
)
from benchmarks.choosing import arguments, begin, report
from benchmarks.quick_daemon import own_trust

PROGRAMS: tuple[ModuleType, ...] = (
    client_start,
    command_time,
    ci_overhead,
    rendering,
    captured_text,
    header_features,
    rebuilding,
    machine_step,
    watching,
    edit_to_compiler,
    idle,
    many_files,
    many_units,
    followers,
    page,
    first_error,
    edit_to_artifact,
    eight_instances,
    first_build,
    farm,
    farm_cores,
    line_tables,
    measurement_cpu,
    analysis,
    emulated_kernels,
    emulation,
    counted_profiles,
    language_server,
    cpp_answers,
)


def main() -> int:
    """The exit status: 1 when a program failed."""
    by_name = {program.__name__.rpartition(".")[2]: program for program in PROGRAMS}
    failed = []
    chosen = arguments(__doc__, tuple(by_name)) or list(by_name)
    begin()
    for name in chosen:
        print(f"— {name}", flush=True)
        try:
            with own_trust():
                report(name, by_name[name].measure())
        except Exception:  # noqa: BLE001  # the others are still to run
            traceback.print_exc()
            failed.append(name)
        except KeyboardInterrupt:
            print("interrupted")
            return 130
    if failed:
        print(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
