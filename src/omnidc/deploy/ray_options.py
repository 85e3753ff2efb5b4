"""Options of a Ray run, apart from its code, so that the command line reads them without importing it."""

from __future__ import annotations

from dataclasses import dataclass, field

from omnidc.errors import ConfigError


@dataclass(frozen=True)
class RayOptions:
    """The cluster and its use. The metadata of a field is for the command line."""

    address: str | None = field(
        default=None, metadata={"help": 'Ray cluster: "auto", host:port; default: start one on this machine.'}
    )
    actors: int = field(default=1, metadata={"help": "Processes that hold the model."})
    batch_size: int = field(default=1, metadata={"help": "Frames that go to an actor at a time."})
    cpus_per_actor: float = field(default=1.0, metadata={"help": "Cores that an actor takes."})
    gpus_per_actor: float = field(default=0.0, metadata={"help": "GPUs that an actor takes."})
    retries: int = field(default=1, metadata={"help": "How often frames that failed are tried again."})

    def __post_init__(self) -> None:
        if self.actors < 1 or self.batch_size < 1 or self.cpus_per_actor <= 0 or self.retries < 0:
            raise ConfigError("Actors, batch size and cores per actor are positive numbers, retries at least 0.")
