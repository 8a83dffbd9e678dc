import time

import pytest

from treetop.core import deadline
from treetop.core.deadline import TimeUpError
from treetop.core.errors import ResourceError
from treetop.core.work import Job


def test_without_a_budget_nothing_is_late():
    deadline.check("work")
    assert deadline.seconds_for_steps() == float("inf") and Job().may_repeat(1e9)


def test_limits_hold_inside_and_the_tighter_one_counts():
    now = time.monotonic()
    with deadline.ending(steps=now + 100, stop=now + 200):
        with deadline.ending(steps=now + 500, stop=now - 1):
            assert 90 < deadline.seconds_for_steps() <= 100
            with pytest.raises(TimeUpError, match="reading: the time budget is used up. Raise it"):
                deadline.check("reading")
        deadline.check("reading")
    assert deadline.seconds_for_steps() == float("inf") and issubclass(TimeUpError, ResourceError)


def test_a_second_training_needs_its_time(caplog):
    assert Job(ends=time.monotonic() + 100).may_repeat(10)
    assert not Job(ends=time.monotonic() + 100).may_repeat(90)
    assert "no time to train once more" in caplog.text
