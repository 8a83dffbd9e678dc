import os
import sys
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(Path(__file__).parent))  # `import toy`


def _one_writer_at_a_time():
    """numba numbers and writes its cache without a lock: workers that compile at once could mix up their code."""
    import fcntl

    from numba.core.caching import IndexDataCacheFile

    plain = IndexDataCacheFile.save

    def save(self, key, data):
        with (Path(self._cache_path) / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            plain(self, key, data)

    IndexDataCacheFile.save = save


if os.environ.get("PYTEST_XDIST_WORKER"):
    _one_writer_at_a_time()
