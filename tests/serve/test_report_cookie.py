"""The report in a frame of the page: the token as a cookie, for that address alone."""

import pytest

from treetop.serve.guard import Guard
from treetop.serve.problem import Problem

GUARD = Guard("a secret; of 16 signs")
COOKIE = [(b"host", b"example.org"), (b"cookie", b"other=1; treetop-token=a%20secret%3B%20of%2016%20signs")]


def test_the_report_takes_the_cookie():
    GUARD.check("/v1/report", "GET", COOKIE)


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/models", "/v1/report/", "/v1/reload"])
def test_no_other_address_does(path):
    with pytest.raises(Problem, match="missing or wrong token"):
        GUARD.check(path, "GET", COOKIE)


@pytest.mark.parametrize("cookie", [b"", b"treetop-token=", b"treetop-token=wrong", b"treetop-token", b"%;;=\xff"])
def test_a_wrong_cookie_is_refused(cookie):
    with pytest.raises(Problem, match="missing or wrong token"):
        GUARD.check("/v1/report", "GET", [(b"cookie", cookie)])
