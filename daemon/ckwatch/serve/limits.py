"""What a client may ask of the daemon."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`grace_s`: how long a client without a stream is remembered. `send_s`: how long one that does not read is kept.

    A stream says `heartbeat` after `heartbeat_s` of silence, and sends at most `send_lines` lines and about
    `send_bytes` at a time. `overlay_bytes` is the memory of all texts that one client lends.
    """

    clients: int = 256
    streams: int = 256
    grace_s: float = 10.0
    overlay_bytes: int = 64 * 2**20
    body_bytes: int = 2**20
    overlay_body_bytes: int = 20 * 2**20
    body_s: float = 30.0
    send_s: float = 30.0
    send_lines: int = 200
    send_bytes: int = 2**16
    heartbeat_s: float = 15.0
