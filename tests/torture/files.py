"""Files that are no ordinary files, where ckwatch expects one: before a daemon starts, while it runs, and while it reads.

FIFOs, sockets, devices, folders, links in a circle, links to endless and to blocking files, ten gigabytes of nothing,
bytes that are no text; names that cannot be shown. The daemon reports what it cannot use at its place, hangs nowhere,
takes no memory for it, goes on with the other kernel, and with all once the file is as it should be.
"""

from __future__ import annotations

import os
import random
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from torture.bystander import (
    ANSWER_S,
    Illtreated,
    build,
    check_others,
    errors,
    ill_treat,
    outcomes,
    remove,
)
from torture.daemons import Daemon
from torture.rounds import Rounds

LARGE_BYTES = 10 * 1024**3
FLICKER_S = 1.0


def make_socket(path: Path) -> None:
    """A socket that nobody listens to."""
    with socket.socket(socket.AF_UNIX) as made:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            made.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


def make_device(path: Path) -> None:
    """A device without end, or a link to it for who may not make one."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except OSError:
        path.symlink_to("/dev/zero")


def make_large(path: Path) -> None:
    """Ten gigabytes that take no room."""
    with path.open("wb") as file:
        file.truncate(LARGE_BYTES)


def make_full_folder(path: Path) -> None:
    """A folder with a file that is none, and itself again."""
    path.mkdir()
    os.mkfifo(path / "k.kernel.toml")
    (path / "again").symlink_to(path)


def make_unreadable(path: Path) -> None:
    """A file for nobody; for root, who reads everything, one that gives an error."""
    if os.geteuid():
        path.write_bytes(b"")
        path.chmod(0)
    else:
        path.symlink_to("/proc/self/mem")


ODD: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a socket": make_socket,
    "a device": make_device,
    "a folder": Path.mkdir,
    "a folder with a FIFO": make_full_folder,
    "nothing": lambda _: None,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to /": lambda path: path.symlink_to("/"),
    "a link to its folder": lambda path: path.symlink_to("."),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to /dev/full": lambda path: path.symlink_to("/dev/full"),
    "a link to /dev/tty": lambda path: path.symlink_to("/dev/tty"),
    "a link to /proc/kmsg": lambda path: path.symlink_to("/proc/kmsg"),
    "a link to /proc/self/fd/0": lambda path: path.symlink_to("/proc/self/fd/0"),
    "a file that cannot be read": make_unreadable,
    "10 GB": make_large,
    "9 MB": lambda path: path.write_bytes(b"# a line of text\n" * 560_000),
    "bytes that are no UTF-8": lambda path: path.write_bytes(b"\xff\x80\xc3\x28 \xed\xa0\x80" * 50),
    "UTF-16": lambda path: path.write_bytes("x = 1\n".encode("utf-16")),
    "NUL": lambda path: path.write_bytes(b"\0" * 5000),
    "control characters": lambda path: path.write_text("a\x1b[31m\x07\u202e\x85\u2028 = 1\n{{ \x1b }}"),
    "{{": lambda path: path.write_text("{{"),
}
"""Replacements of a file."""

PLACES = (
    *("k.kernel.toml", "templates/k.hip.j2", "templates/macros.j2", "ckwatch.toml", "templates", "../include/h.h"),
    *("new.kernel.toml", "templates/new.hip.j2", "folder", "templates/folder"),
)
NEEDED = ("k.kernel.toml", "templates/k.hip.j2", "templates/macros.j2", "ckwatch.toml", "templates", "../include/h.h")
HARMLESS = ("control characters", "NUL", "9 MB")
"""Contents of a template or header."""

NAMES = (
    *(b"a\nb", b"\x1b[31mred", b"\x07", b"\xe2\x80\xaeoml.lenrek", b"\xff\xfe", b"\xed\xa0\x80", b"a b 'c' \"d\"", b"$(touch x)"),
    *(b"-rf", b"--help", b"*", b"k", b"..." , b"\xf0\x9f\x98\x80", b"e\xcc\x81", b"\xc3\xa9", b"%s{0}", b"x" * 230, b"\xe2\x80\xa8", b"con"),
    *(b"\x7f", b"\xc2\x85", b"a\\b", b"a:b", b"a#b", b"a?b=c", b"[ab]", b"{a,b}", b"\xc3\xa9" * 110, b" ", b"\t", b"one@gfx942"),
)  # fmt: skip
SUFFIXES = (b".kernel.toml", b".hip.j2", b".j2", b"", b".toml")


def run(rounds: Rounds) -> None:
    """Until its time is over."""
    ill_treat(rounds, play)


def play(rounds: Rounds, daemon: Daemon, bench: Illtreated, chance: random.Random) -> None:
    """One round; what is made is left there."""
    way = chance.choice(("while it runs", "while it runs", "before it starts", "while it reads", "names"))
    if way == "names":
        name_oddly(rounds, daemon, bench, chance)
        return
    place = chance.choice(PLACES)
    if way == "while it reads":
        kinds = chance.sample(sorted(ODD), 4)
        rounds.using(f"{place}: now and then {', '.join(kinds)}")
        with flickering(bench.root / place, kinds, random.Random(chance.random())):  # noqa: S311
            until_s = time.monotonic() + FLICKER_S
            while time.monotonic() < until_s:
                build(daemon)
                errors(daemon)
        return
    kind = chance.choice(sorted(ODD))
    rounds.using(f"{place}: {kind}, {way}")
    if way == "before it starts":
        daemon.kill()
    remove(bench.root / place)
    ODD[kind](bench.root / place)
    if way == "before it starts":
        daemon.fork()
        try:
            daemon.wait_until_ready()
        except AssertionError:
            assert place == "ckwatch.toml", daemon.log_tail()
            daemon.check_log()
            bench.mend()
            daemon.start()
            return
    if place in ("ckwatch.toml", "templates"):
        build(daemon)
    else:
        check_others(daemon, bench)
    if place in NEEDED and not (kind in HARMLESS and place != "ckwatch.toml"):
        wait_for_error(daemon, place)


def wait_for_error(daemon: Daemon, place: str) -> None:
    """Something is said about it."""
    until_s = time.monotonic() + ANSWER_S / 4
    while True:
        built = build(daemon)
        if errors(daemon):
            return
        if place == "k.kernel.toml" and not any(name.startswith("k/") for name in built):
            return  # it is no kernel file any more
        if place == "../include/h.h":
            return  # that is the compiler's to say
        assert time.monotonic() < until_s, f"nothing is said: {outcomes(built)}"
        time.sleep(0.1)


@contextmanager
def flickering(path: Path, kinds: list[str], chance: random.Random) -> Iterator[None]:
    """Have the file be something else all the time."""
    over = threading.Event()
    present = path.read_bytes() if path.is_file() else None

    def flicker() -> None:
        while not over.wait(chance.random() * 0.02):
            beside = path.with_name(f"{path.name}~")
            with suppress(OSError):
                remove(beside)
                if present is not None and chance.random() < 0.4:
                    beside.write_bytes(present)
                else:
                    ODD[chance.choice(kinds)](beside)
                if chance.random() < 0.5:
                    remove(path)
                beside.rename(path)

    thread = threading.Thread(target=flicker)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def name_oddly(rounds: Rounds, daemon: Daemon, bench: Illtreated, chance: random.Random) -> None:
    """Kernel files, templates and folders with odd names."""
    made = []
    for _ in range(chance.randrange(1, 6)):
        folder = os.fsencode(bench.root) + chance.choice((b"/", b"/templates/"))
        name = chance.choice(NAMES) + chance.choice(SUFFIXES)
        made.append((folder, name))
    rounds.using(repr([name for _, name in made]))
    kernel = (bench.root / "g.kernel.toml").read_bytes()
    for folder, name in made:
        with suppress(OSError):
            if name.endswith(SUFFIXES[3]) and b"." not in name:
                Path(os.fsdecode(folder + name)).mkdir()
                name += b"/k.kernel.toml"
            Path(os.fsdecode(folder + name)).write_bytes(kernel if b".toml" in name else b"int x;\n")
    build(daemon)
    check_others(daemon, bench)
    errors(daemon)
    assert daemon.http.get("/templates").status_code == 200
    for line in daemon.http.get("/units").json():
        bad = [char for char in line["id"] if not char.isprintable()]
        assert not bad, line["id"]
