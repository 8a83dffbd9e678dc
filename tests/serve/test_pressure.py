"""How many texts may be in flight."""

import pytest

from treetop.serve.pressure import FEWEST, GRACE, OLD, WINDOWS, Pressure
from treetop.serve.problem import Problem


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def work(pressure, clock, rate, seconds=3.0, each=4):
    """Texts answered at a rate, some at a time."""
    for _ in range(int(rate * seconds / each)):
        pressure.enter(each)
        clock.now += each / rate
        pressure.leave(each)


def test_the_limit_follows_the_rate():
    clock = Clock()
    pressure = Pressure(2, rate=1000.0, clock=clock)
    assert pressure.limit == 50
    work(pressure, clock, 2000)
    assert pressure.rate == pytest.approx(2000, rel=0.02) and pressure.limit == pytest.approx(100, abs=3)
    work(pressure, clock, 500, seconds=0.3)
    assert pressure.limit > 90  # one bad moment says little
    work(pressure, clock, 500, seconds=0.3 * WINDOWS)
    assert pressure.limit == pytest.approx(25, abs=1)
    work(pressure, clock, 1e5)
    assert pressure.limit == 256  # 512 over two workers
    work(pressure, clock, 10, seconds=0.3 * WINDOWS * 4)
    assert pressure.limit == FEWEST


def test_time_without_work_does_not_count():
    clock = Clock()
    pressure = Pressure(clock=clock)
    for _ in range(100):
        work(pressure, clock, 1500, 0.1)
        clock.now += 10
    assert pressure.rate == pytest.approx(1500, rel=0.02)


def test_refused_above_the_limit():
    pressure = Pressure(clock=Clock())
    pressure.enter(pressure.limit - 1)
    pressure.check()
    pressure.enter(32)  # a request that is let in may bring several texts
    with pytest.raises(Problem, match="81 texts are being answered. Try again in a second.") as caught:
        pressure.check()
    assert (caught.value.status, caught.value.headers) == (429, {"retry-after": "1"})


def is_refused(pressure, unread):
    try:
        pressure.check(unread)
    except Problem as problem:
        assert problem.status == 429
        return True
    return False


def test_time_unread_counts_as_waiting():
    pressure = Pressure(clock=Clock())
    pressure.enter(30)
    assert not is_refused(pressure, 0.0) and not is_refused(pressure, 0.019)
    assert is_refused(pressure, 0.021)  # 30 texts take 30 ms


def test_old_requests_are_refused_if_they_keep_coming():
    clock = Clock()
    pressure = Pressure(clock=clock)
    pressure.enter(FEWEST)
    clock.now = 10.0
    assert not is_refused(pressure, OLD + 0.1)  # after a pause of the machine
    clock.now += GRACE / 2
    assert not is_refused(pressure, OLD + 0.1)
    clock.now += GRACE
    with pytest.raises(Problem, match="8 texts are being answered, and more wait to be read. Try again in a second."):
        pressure.check(OLD + 0.1)
    assert not is_refused(pressure, 0.0)  # a new one
    pressure.leave(1)
    assert not is_refused(pressure, OLD + 0.1)  # a few are always let in
    pressure.enter(1)
    clock.now += 2 * GRACE
    assert not is_refused(pressure, OLD + 0.1)  # the next pause


def test_documents_of_refusals_are_kept():
    pressure = Pressure(clock=Clock())
    pressure.enter(pressure.limit)
    bodies = []
    for _ in range(2):
        with pytest.raises(Problem) as caught:
            pressure.check()
        bodies.append(caught.value.body)
    assert bodies[0] is bodies[1] and b'"status": 429' in bodies[0]
