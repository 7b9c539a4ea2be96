"""The program `ckwatch`, also as `python -m ckwatch`."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Until a command can say something about it, Ctrl-C ends the program at once and without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from ckwatch.cli import run

if __name__ == "__main__":
    run()
