"""All protocols by name."""

from __future__ import annotations

from collections.abc import Mapping

from omnidc.errors import ConfigError
from omnidc.evaluation.paper import NYU, RADAR, TABLE1, TABLE2, VOID, WEATHER
from omnidc.evaluation.protocols import EvaluationProtocol
from omnidc.evaluation.real import REAL, SCALE
from omnidc.evaluation.speed import SPEED

PROTOCOLS: Mapping[str, EvaluationProtocol] = {
    protocol.name: protocol for protocol in (REAL, TABLE1, TABLE2, NYU, VOID, RADAR, WEATHER, SCALE, SPEED)
}


def find_protocol(name: str) -> EvaluationProtocol:
    if name not in PROTOCOLS:
        raise ConfigError(f"There is no protocol {name!r}: choose one of {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]
