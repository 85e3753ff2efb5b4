"""All protocols by name."""

from __future__ import annotations

from collections.abc import Mapping

from omnidc.errors import ConfigError
from omnidc.evaluation.paper import TABLES
from omnidc.evaluation.protocols import EvaluationProtocol
from omnidc.evaluation.real import REAL, SCALE
from omnidc.evaluation.speed import TABLE_G

PROTOCOLS: Mapping[str, EvaluationProtocol] = {protocol.name: protocol for protocol in (REAL, *TABLES, TABLE_G, SCALE)}
# Names for people; "table1" is what Table l was called before the tables had the paper's numbers.
ALIASES: Mapping[str, str] = {
    "void": "table5",
    "radar": "table-b",
    "weather": "table-d",
    "nyu": "table-f",
    "speed": "table-g",
    "table1": "table-l",
}


def find_table(name: str) -> str:
    """Return the paper's number of a table, also by its alias."""
    return ALIASES.get(name, name)


def find_protocol(name: str) -> EvaluationProtocol:
    name = find_table(name)
    if name not in PROTOCOLS:
        raise ConfigError(f"There is no protocol {name!r}: choose one of {', '.join(PROTOCOLS)}.")
    return PROTOCOLS[name]
