"""An object that leaves a trace where it is unpickled: a line in the file that FARM_EVIDENCE names."""

from __future__ import annotations

import os

CODE = "import os; os.getpid() == {sender} or open({evidence!r}, 'a').write(f'{{os.getpid()}} ran it\\n')"
"""Run anywhere but in the sender, where dask tries whether an error can be pickled."""


class Payload(Exception):  # noqa: N818  # most often it is sent, and not raised
    """Payload of a hostile member."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (CODE.format(sender=os.getpid(), evidence=os.environ["FARM_EVIDENCE"]),)
