"""The paper-size network's configuration, and its presets."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from omnidc.errors import ConfigError

DEPTH_SPACES = ("linear", "log", "log-normalised")
EDGE_WEIGHTS = ("uniform", "learnable")


@dataclass(frozen=True)
class PaperConfig:
    """What the OMNI-DC network is built of. The defaults are our own mode; the released models are `compat`.

    resolutions: R, the number of gradient maps (1/4, 1/8, 1/16 of the image), 1 to 3.
    space: what is integrated: "linear" depth, "log" depth, or "log-normalised" depth (divided by the median of the
        measurements); only the last is independent of the unit.
    laplace: has the head that predicts the Laplace scale of the depth.
    spn_steps: DySPN propagation steps at full resolution; 0 = off.
    prior: a second depth channel from a monocular network (v1.1), see omnidc.network.prior.
    compat: the released code's borders (zeros outside in upsampling and DySPN) and input (no validity channel).
    edge_weights: "uniform" 1/R, or one "learnable" scalar per resolution and image.
    alpha: weight of the measurements against the gradients in the integrator.
    gradient_limit: predicted gradients are clamped to ± this.
    log_scale_floor: the smallest natural log of the Laplace scale (relative to the median).
    tolerance: relative residual at which the integrator stops.
    """

    architecture: str = "paper"
    resolutions: int = 3
    space: str = "log-normalised"
    laplace: bool = True
    spn_steps: int = 6
    prior: bool = False
    compat: bool = False
    edge_weights: str = "uniform"
    alpha: float = 5.0
    gradient_limit: float = 1.0
    log_scale_floor: float = -7.0
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        if self.architecture != "paper":
            raise ConfigError(f'This is the configuration of architecture "paper", not {self.architecture!r}.')
        if self.resolutions not in (1, 2, 3):
            raise ConfigError(f"resolutions must be 1, 2 or 3, not {self.resolutions!r}.")
        if self.space not in DEPTH_SPACES:
            raise ConfigError(f"space must be one of {', '.join(DEPTH_SPACES)}, not {self.space!r}.")
        if self.edge_weights not in EDGE_WEIGHTS:
            raise ConfigError(f"edge_weights must be one of {', '.join(EDGE_WEIGHTS)}, not {self.edge_weights!r}.")
        if self.spn_steps < 0:
            raise ConfigError(f"spn_steps must be 0 (no propagation) or more, not {self.spn_steps!r}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PaperConfig:
        return cls(**values)

    @property
    def borders(self) -> str:
        """How upsampling and DySPN treat neighbours outside the image."""
        return "zero" if self.compat else "renormalised"

    @property
    def depth_channels(self) -> int:
        """Depth channels at the network's door: depth, validity (own mode), prior."""
        return 1 + (not self.compat) + self.prior


PRESETS: dict[str, PaperConfig] = {
    "paper-v1.0": PaperConfig(compat=True, log_scale_floor=-2.0, laplace=False),
    "paper-v1.0-as-trained": PaperConfig(compat=True, log_scale_floor=-2.0, edge_weights="learnable"),
    "paper-v1.1": PaperConfig(compat=True, log_scale_floor=-2.0, laplace=False, prior=True),
    "paper": PaperConfig(),
    "paper-R1": PaperConfig(resolutions=1),
    "paper-R2": PaperConfig(resolutions=2),
    "paper-linear": PaperConfig(space="linear"),
    "paper-log": PaperConfig(space="log"),
    "paper-no-laplace": PaperConfig(laplace=False),
    "paper-no-spn": PaperConfig(spn_steps=0),
}
