"""The thread pool of `core/executor`, where kernels look for what runs them."""

from treetop.core.executor.threads import blocks, count, limited, run, stream

__all__ = ["blocks", "count", "limited", "run", "stream"]
