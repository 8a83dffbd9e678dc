import logging
import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("GOMP_SPINCOUNT", "0")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "helpers"), str(HERE), str(HERE.parent)]  # `import toy`, `import tools.docs`


@pytest.fixture(autouse=True)
def plain_log():
    """What a command run in this process does to the log ends with the test."""
    logger = logging.getLogger("treetop")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers = handlers
    logger.setLevel(level)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory):
    """The folder of a toy encoder, as `encoder=...` names it."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from toy_encoder import write_encoder

    torch.set_num_threads(1)
    return str(write_encoder(tmp_path_factory.mktemp("toy") / "encoder"))
