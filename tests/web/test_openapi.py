"""The description at /openapi.json is true: schemathesis makes requests of it and checks the answers against it."""

from __future__ import annotations

from typing import Any

import pytest

import omnidc

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402

from omnidc.web.app import create_app  # noqa: E402
from omnidc.web.settings import Settings  # noqa: E402

app = create_app(omnidc.load("harmonic"), Settings(page=False))
schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"Host": "localhost"})


@schema.parametrize()
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_answers_keep_to_the_description(case: Any) -> None:
    checks = schemathesis.checks
    case.call_and_validate(
        headers={"Host": "localhost"},
        checks=[
            checks.not_a_server_error,
            *(
                check
                for check in schemathesis.checks.CHECKS.get_by_names(
                    ["status_code_conformance", "content_type_conformance", "response_schema_conformance"]
                )
            ),
        ],
    )
