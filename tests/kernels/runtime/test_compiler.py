"""Without numba's compiler the package can be imported, and whatever needs a kernel says in one sentence why not."""

import os
import subprocess
import sys

import pytest

from treetop.core.errors import MissingExtraError
from treetop.kernels.runtime import compiler

ABSENT = "import sys; sys.modules['numba'] = None\n"
NO_LLVM = "import sys; sys.modules['llvmlite'] = None\n"
OLD = "import numpy; numpy.__version__ = '99.0.0'\n"  # numba refuses what it does not know
COMMAND = "import sys; from treetop.cli.start import main; sys.argv = ['treetop', 'demo']; main()"
FIT = "import treetop; print('imported', treetop.__version__); treetop.fit('popular', ['a cat'], [['cat']])"
WHY = {
    ABSENT: "'numba', which is not installed. Install it with: pip install numba",
    NO_LLVM: "'llvmlite', which is not installed. Install it with: pip install numba",
    OLD: "Got NumPy 99.0. Install versions that go together with: pip install --upgrade numba numpy scipy",
    "": "numba's compiler, which NUMBA_DISABLE_JIT turns off. Remove this variable from the environment.",
}


def ended(code, **env):
    env = {**os.environ, **env}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=env)


@pytest.mark.parametrize("broken", WHY, ids=["numba", "llvmlite", "numpy", "disabled"])
def test_the_command_says_what_is_missing_and_what_to_do(broken):
    done = ended(broken + COMMAND, NUMBA_DISABLE_JIT="" if broken else "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: numeric kernels need ") and done.stderr.count("\n") == 1
    assert WHY[broken] in done.stderr


def test_the_import_works_and_the_library_raises_one_error():
    done = ended(ABSENT + FIT)
    assert done.stdout.startswith("imported ") and done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"MissingExtraError: numeric kernels need the package {WHY[ABSENT]}")


def test_another_missing_package_is_not_blamed_on_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError, match="'numba'"):
        compiler.check_compiler()
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(sys, "meta_path", [Refusing(), *sys.meta_path])
    with pytest.raises(ModuleNotFoundError, match="elsewhere"):
        compiler.check_compiler()


class Refusing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "numba":
            raise ModuleNotFoundError("elsewhere", name="elsewhere")
