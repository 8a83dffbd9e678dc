"""Random requests by the OpenAPI file: every answer is as described, and never a 5xx (`make test-schema`)."""

import os

import hypothesis
import pytest

from asked import Asked

schemathesis = pytest.importorskip("schemathesis")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
EXAMPLES = int(os.environ.get("EXAMPLES", "100"))


def test_answers_are_as_described(calibrated, plain, tmp_path):
    api = Asked(calibrated, plain, feedback=tmp_path / "f.sqlite", show_texts=True)
    from schemathesis.specs.openapi.checks import positive_data_acceptance  # threshold excludes precision, and so on

    headers = {"host": "127.0.0.1"}
    schema = schemathesis.openapi.from_asgi("/openapi.json", api.app, headers=headers)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 18
    failures = []
    for operation in operations:
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

            @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
            @hypothesis.settings(
                max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
            )
            def check(case):
                case.call_and_validate(headers=headers, excluded_checks=[positive_data_acceptance])

            try:
                check()
            except hypothesis.errors.Unsatisfiable:  # nothing could be wrong
                continue
            except (Exception, BaseExceptionGroup) as error:
                failures.append(f"{operation.label} {mode.value}: {error}")
    assert not failures, "\n\n".join(failures)
