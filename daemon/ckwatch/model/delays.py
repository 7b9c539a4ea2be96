"""Every delay between a keystroke or a save and its answer.

A delay merges what follows closely into one piece of work. The delays on one way add up (`total_s`), so that each new
one is paid for by the user: the work itself comes on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Way = Literal["diagnostics", "compiler errors", "hints", "rendered source", "build"]
"""From a keystroke to what the editor shows of it; `build` is from a save to the unit's render."""


class Delay(NamedTuple):
    """`adds_to` names each way once for every time that the delay occurs on it; none for what only limits the rate of
    repeated work, bounds a wait, or puts off work that no answer waits for."""

    seconds: float
    why: str
    adds_to: tuple[Way, ...] = ()


# A save, as the daemon sees it.
WATCH_STEP: Final = Delay(
    0.03,
    "watchfiles looks for events at this interval, and reports them after one without more, where nothing tells when",
)
WATCH_RING: Final = Delay(
    0.002, "inotify tells: what follows is gathered for so long, then watchfiles is asked", ("build", "build", "build")
)
WATCH_SINGLE_STEP: Final = Delay(0.05, "the same, for folders whose subfolders are not watched")
SETTLE: Final = Delay(0.02, "a file that is not closed may still change: the default of `daemon.settle_ms`")
LARGE_BATCH_QUIET: Final = Delay(0.15, "a checkout writes many files: a batch of them ends with this quiet")
LARGE_BATCH_LIMIT: Final = Delay(2.0, "such a batch waits no longer")
CHECKOUT_PAUSE: Final = Delay(0.5, "changes so soon after a batch belong to the same checkout")
WATCH_UPDATE: Final = Delay(0.25, "the set of watched files is updated no more often")
COMPILER_LOOK: Final = Delay(5.0, "compilers that are replaced, go or come are noticed no later: 2 ms for each of them")

# The daemon's work.
ALERTS: Final = Delay(2.0, "what is failed, wrong or slower for a moment alone is no alert")
WEBHOOK_RETRY: Final = Delay(3.0, "a web server that is busy may answer then")
URGENT_LOAD_WAIT: Final = Delay(2.0, "renders wait no longer for a load that may change what is to be rendered")
LOAD: Final = Delay(0.3, "a load that no render needs leaves the processors to renders")
COMPILER_MESSAGES: Final = Delay(0.005, "a message and its notes come in several pieces", ("compiler errors",))
COMPILER_REPORTS: Final = Delay(0.25, "a long log is parsed no more often")
CHANGE_FEED: Final = Delay(0.01, "a follower gets one answer for the changes of several units, and no more often")
CHANGES_UNDER_LOAD: Final = Delay(0.25, "thousands of changes before many followers are sent no more often")

# The language server.
DAEMON_CHANGES: Final = Delay(0.02, "features handle changes of several units at once", ("hints", "rendered source"))
DIAGNOSTIC_CHANGES: Final = Delay(
    0.005, "diagnostics of open files, and what comes with them, are handled no more often"
)
UNIT_CHANGES: Final = Delay(0.15, "while nothing but units changes, as in a first render of thousands, no more often")
PUBLISH: Final = Delay(
    0.02, "what an edit moves and what features add is published with what the daemon reports, which is not delayed"
)
OTHER_FILES: Final = Delay(0.2, "diagnostics of files that are not open are published no more often")
REFRESH: Final = Delay(0.1, "a refresh of hints, lenses, units or status concerns all documents", ("hints",))
VIRTUAL_TEXT: Final = Delay(
    0.1, "a unit changes several times in a row, and its text is requested once", ("rendered source",)
)
PROGRESS: Final = Delay(0.2, "work of the daemon that takes less is not shown")
FOCUS: Final = Delay(0.02, "documents that are opened together are one reason to build other units first")
READERS: Final = Delay(0.3, "the daemon is asked again which units read a template no more often")
KERNEL_FILE_ANSWERS: Final = Delay(0.5, "the daemon is asked again about keys and templates no more often")
PREVIOUS_DAEMON: Final = Delay(0.5, "what only the previous daemon has reported is shown for so long")

# Waits for the daemon within an answer to the editor.
FIRST_ANSWER: Final = Delay(5.0, "for keys and templates that are not known yet")
PARAMETER_VALUES: Final = Delay(0.012, "for the rules' judgement of values; the editor asks again when it comes later")
PULL: Final = Delay(5.0, "for the diagnostics of a text that was edited; after that the editor is to ask again")
PULL_RENDERS: Final = Delay(0.5, "for all renders of such a text; after that for the first that finds anything")
CODE_ACTIONS: Final = Delay(2.0, "for accepted values and measured instances")
HOVER: Final = Delay(0.25, "for the first answer about a unit or template")
NEWER_HOVER: Final = Delay(0.015, "for a newer answer; the known one will do")
CPP_BESIDE: Final = Delay(0.25, "for C++ where another part has an answer, or the editor asks again by itself")
CPP_COMPLETION: Final = Delay(30.0, "for what C++ could be written: 1 to 2 s on an idle machine; an editor cancels it")
CPP_COMPARED: Final = Delay(0.5, "for what a hover is in other instances")
CPP_ALONE: Final = Delay(10.0, "for what the cursor or mouse stays at: clangd reads the headers for 3 to 4 s, if idle")
CPP_USES: Final = Delay(60.0, "for what is asked by a command, and the outline; the editor can cancel")
CPP_AGAIN: Final = Delay(0.05, "an answer about another text is asked for again")
CPP_UNREADY: Final = Delay(0.2, "a clangd that takes longer is asked why")
CPP_STATUS: Final = Delay(1.0, "and what it does is shown when it takes so long, and not more often")
DIAGNOSTIC_REFRESH: Final = Delay(5.0, "for the editor's answer to a refresh; after that the next one is sent")

DELAYS: Final[Mapping[str, Delay]] = {name: one for name, one in globals().items() if isinstance(one, Delay)}


def total_s(way: Way) -> float:
    """The sum of the delays on a way."""
    return sum(delay.seconds * delay.adds_to.count(way) for delay in DELAYS.values())
