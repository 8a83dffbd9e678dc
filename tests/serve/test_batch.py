"""Micro-batches: what is waiting goes together, and one bad text does not fail the others."""

import asyncio

import pytest

from treetop.core.errors import ModelError
from treetop.serve import batch
from treetop.serve.batch import Batcher
from treetop.serve.served import Served


@pytest.fixture(scope="module")
def served(plain):
    return Served.open("plain", plain, "cpu")


def ask(batcher, served, *asked):
    async def all_of_them():
        jobs = [batcher.submit(served, texts, k) for texts, k in asked]
        return await asyncio.gather(*jobs, return_exceptions=True)

    return asyncio.run(all_of_them())


def test_answers_are_those_of_the_model(served):
    batcher = Batcher(1)
    asked = [(["cat dogs"], 3), (["bird", "fish and trees"], 3), (["wheel"], 2), (["", "qqq"], 2)]
    for _ in range(2):  # at first on a thread, then where requests are read
        for (texts, k), rows in zip(asked, ask(batcher, served, *asked), strict=True):
            assert [row.labels for row in rows] == served.model.predict(texts, k=k)
            assert [row.unknown for row in rows] == served.model.unknown(texts).tolist()
    batcher.close()


def test_what_waits_goes_together(served, monkeypatch):
    batcher, sizes = Batcher(1), []
    whole = batcher._rows
    monkeypatch.setattr(batch, "QUICK", 9.0)  # however slow this machine is
    monkeypatch.setattr(batcher, "_rows", lambda jobs: [sizes.append(len(jobs)), *whole(jobs)][1:])
    ask(batcher, served, *[(["cat"], 3)] * 5, (["dog"], 2))
    assert sizes == [5, 1]
    sizes.clear()
    monkeypatch.setattr(batch, "LARGEST", 4)
    ask(batcher, served, *[(["cat", "dog"], 3)] * 5)
    assert sizes == [2, 2, 1]
    batcher.close()


def test_one_bad_text_fails_alone(served, monkeypatch):
    batcher = Batcher(1)
    whole = batcher._rows

    def rows(jobs):
        if any("bad" in job.texts for job in jobs):
            raise ModelError("a score that is not finite.")
        return list(whole(jobs))

    monkeypatch.setattr(batcher, "_rows", rows)
    good, bad, last = ask(batcher, served, (["cat"], 3), (["bad"], 3), (["dog"], 3))
    assert isinstance(bad, ModelError) and good[0].labels and last[0].labels
    batcher.close()


@pytest.mark.parametrize("quick", [0.0, 10.0])
def test_on_a_thread_or_where_requests_are_read(served, monkeypatch, quick):
    import threading

    monkeypatch.setattr(batch, "QUICK", quick)
    batcher, names = Batcher(1), []
    whole = batcher._rows
    monkeypatch.setattr(
        batcher, "_rows", lambda jobs: [names.append(threading.current_thread().name), *whole(jobs)][1:]
    )
    ask(batcher, served, (["cat"], 3))
    ask(batcher, served, (["cat"], 3))
    assert names[0].startswith("predict") and names[1].startswith("predict" if not quick else "MainThread")
    batcher.close()


def test_requests_that_wait_too_long_are_given_up(served):
    batcher = Batcher(1)

    async def asked():
        loop = asyncio.get_running_loop()
        batcher._running = True  # as if a batch were being computed
        waiting = batcher.submit(served, ["cat"], 3)
        await asyncio.sleep(0)
        batcher.expire(loop.time() - 60)
        assert not waiting.done()
        batcher.expire(loop.time() + 60)
        with pytest.raises(TimeoutError):
            await waiting
        assert batcher._next() == []

    asyncio.run(asked())
    batcher.close()


def test_requests_that_come_often_are_gathered(served, monkeypatch):
    batcher, sizes = Batcher(1), []
    whole = batcher._rows
    monkeypatch.setattr(batch, "QUICK", 9.0)  # however slow this machine is
    monkeypatch.setattr(batcher, "_rows", lambda jobs: [sizes.append(len(jobs)), *whole(jobs)][1:])

    async def asked(gap):
        batcher._gap, batcher._last = gap, asyncio.get_running_loop().time()
        first = batcher.submit(served, ["cat"], 3)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.gather(first, batcher.submit(served, ["dog"], 3))

    batcher._measured, batcher.seconds = True, 1e-5
    asyncio.run(asked(1.0))
    assert sizes == [1, 1]
    sizes.clear()
    asyncio.run(asked(0.0001))
    assert sizes == [2]
    batcher.close()


def test_quick_batches_are_cut_and_slow_ones_are_not(served):
    batcher = Batcher(1)

    async def batches():
        batcher._running = True  # as if a batch were being computed
        jobs = [batcher.submit(served, ["cat"], 3) for _ in range(10)]
        found = []
        while batch := batcher._next():
            found.append(len(batch))
        for job in jobs:
            job.cancel()
        return found

    batcher._measured, batcher.seconds = True, batch.QUICK / 4.5
    assert asyncio.run(batches()) == [4, 4, 2]
    batcher.seconds = 2 * batch.QUICK
    assert asyncio.run(batches()) == [10]
    batcher.close()
