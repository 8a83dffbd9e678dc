"""The command `treetop`: signals are handled before the commands are imported."""

from __future__ import annotations

import signal

from treetop.cli import ending


def main() -> None:
    """Run a command; see `main.py`."""
    try:
        with ending.handled():
            from treetop.cli.main import main as run

            run()
    except KeyboardInterrupt:
        ending.leave()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on there is nothing to clean up
