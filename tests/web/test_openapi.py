"""The description at /openapi.json is true: schemathesis makes requests of it and checks the answers against it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnidc

pytest.importorskip("fastapi")
pytest.importorskip("httpx")
schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402

from omnidc.web.app import create_app  # noqa: E402
from omnidc.web.settings import Settings  # noqa: E402

app = create_app(omnidc.load("interpolate"), Settings(page=False))
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


@pytest.mark.parametrize(
    "accept", ["application/x-npy", "image/png", "model/ply", "model/gltf-binary", "application/json"]
)
def test_real_answers_keep_to_the_description(client_of: Any, room: dict[str, Any], accept: str) -> None:
    """Made-up images never get as far as a depth map; this one does."""
    camera = (Path(omnidc.__file__).parent / "examples" / "room_intrinsics.txt").read_text(encoding="utf-8")
    answer = client_of(page=False).post(
        "/v1/complete", files=room, data={"intrinsics": camera}, headers={"Accept": accept}
    )
    assert answer.status_code == 200
    schema["/v1/complete"]["POST"].validate_response(answer)


def test_a_description_that_is_not_kept_is_noticed(client_of: Any, room: dict[str, Any]) -> None:
    answer = client_of(page=False).post("/v1/complete", files=room, headers={"Accept": "application/json"})
    answer._content = answer.content.replace(b'"relative": false', b'"relative": "no"')
    with pytest.raises(Exception, match="boolean"):
        schema["/v1/complete"]["POST"].validate_response(answer)
