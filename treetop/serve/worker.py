"""One worker process: opens models, answers requests, follows reloads; ends when told, or when its parent is gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import uvicorn
import uvloop

from treetop.core import log
from treetop.core.errors import TreetopError
from treetop.core.log import logger
from treetop.serve.app import build
from treetop.serve.metrics import Metrics
from treetop.serve.protocol import KEEP_ALIVE, LimitedProtocol
from treetop.serve.service import Service
from treetop.serve.settings import SECONDS, SHUTDOWN, Settings
from treetop.serve.sockets import BACKLOG

READY = "ready"
COLLECT = (20_000, 20, 50)  # new objects before the collector of cycles looks at the young ones; rounds of the older
STEP = 0.2  # seconds between two looks at what other workers were told
# Seconds a thread keeps the interpreter while others want it. Each kernel of an answer hands it over, so that with
# Python's 5 ms a model that is opened beside would make an answer wait for it a dozen times.
SWITCH = 0.0003


def main(settings: Settings, sock: socket.socket, figures: Path, slot: int, parent: Connection) -> None:
    """Serve until told to stop; tells the parent `READY`, or one sentence why it cannot."""
    log.show(level=logging.INFO, bars=False)
    sys.setswitchinterval(SWITCH)
    try:
        metrics = Metrics.shared(figures, [id_ for id_, _ in settings.models], settings.workers, slot)
        service = Service.start(settings, metrics)
    except (TreetopError, OSError) as error:
        parent.send(str(error))
        return
    _keep_collections_short()
    server = _Server(_config(service), parent)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the loop runs
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.run_all(sock, service))
    service.close()
    sys.stdout.flush()
    os._exit(0)  # a thread may still compute what nobody waits for any more


def _keep_collections_short() -> None:
    """What is there by now stays: the collector of cycles need not go through it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)


def _config(service: Service) -> uvicorn.Config:
    # A line in the log for each request that is not HTTP would let anybody fill the disk: errors alone are logged.
    return uvicorn.Config(
        build(service), http=LimitedProtocol, ws="none", lifespan="off", access_log=False, log_config=None,
        log_level="error", backlog=BACKLOG, timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=int(SHUTDOWN),
        server_header=False, proxy_headers=False,
    )  # fmt: skip


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, parent: Connection) -> None:
        super().__init__(config)
        self.parent = parent

    async def run_all(self, sock: socket.socket, service: Service) -> None:
        """Serve, with a watch over model folders and the parent."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, lambda: asyncio.ensure_future(_in_thread(service.reload_all)))
        loop.add_reader(self.parent.fileno(), self._stop)  # the parent never writes: it has gone
        following = [asyncio.create_task(_follow(service)), asyncio.create_task(self._sweep(service))]
        serving = asyncio.create_task(self.serve(sockets=[sock]))
        while not self.started and not serving.done():
            await asyncio.sleep(0.01)
        self.parent.send(READY)
        await _in_thread(service.warm)
        await serving
        for task in following:
            task.cancel()

    async def _sweep(self, service: Service) -> None:
        """Once a second, give up requests that take too long to arrive or to answer."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1.0)
            service.batcher.expire(loop.time() - SECONDS)
            for connection in list(self.server_state.connections):
                if isinstance(connection, LimitedProtocol):
                    connection.close_if_late(loop.time())

    def _stop(self) -> None:
        self.should_exit = True
        asyncio.get_running_loop().remove_reader(self.parent.fileno())


async def _follow(service: Service) -> None:
    """Do as other workers were told, and look at the model folders from time to time."""
    looked, loop = 0.0, asyncio.get_running_loop()
    while True:
        await asyncio.sleep(STEP)
        service.publish()
        due = bool(service.settings.watch) and loop.time() - looked >= service.settings.watch
        if due or service.asked():
            looked = loop.time()
            try:
                await _in_thread(service.follow)
                await _in_thread(service.warm)
            except Exception as error:
                logger.error("%s while looking for new models", type(error).__name__)


async def _in_thread(work: Any, *values: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work, *values)
