"""A function in a process of its own that need not load torch again: a fork of this one."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings


class Forked:
    """Like `subprocess.Popen`, for a function: exit code 0 when it returns, 1 with a traceback when it raises."""

    def __init__(self, function, *arguments, **environment):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of pytest-xdist, which a child does not use
            self.pid = os.fork()
        self.returncode = None
        if not self.pid:
            self._become(function, arguments, environment)

    def _become(self, function, arguments, environment):
        code = 1
        try:
            os.environ.update(environment)
            function(*arguments)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def poll(self):
        """The exit code, or None as long as it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, seconds=100):
        """The exit code; a child that takes longer is killed."""
        end = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > end:
                self.kill()
            time.sleep(0.01)
        return self.returncode

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
