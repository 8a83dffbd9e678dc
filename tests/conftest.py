import os
import sys
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    # numba locks nothing in its cache: workers that compile at once could take each other's code for their own
    name = "NUMBA_CACHE_DIR" if os.environ.get("NUMBA_CACHE_DIR") else "TREETOP_CACHE"
    home = os.environ.get(name) or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    os.environ[name] = str(Path(home) / "treetop-tests" / worker)
sys.path.insert(0, str(Path(__file__).parent))  # `import toy`
