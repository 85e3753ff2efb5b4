"""The configuration of the paper's network, and its presets."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from omnidc.errors import ConfigError

DEPTH_SPACES = ("linear", "log", "log-normalized")
EDGE_WEIGHTS = ("uniform", "learnable")
WIDTHS = (1.0, 0.5, 0.25, 0.125)
LOG_LIMIT = 1.0  # of gradients of log depth, as released
LINEAR_LIMIT = 10.0  # of gradients of linear depth, in units of the training samples' median; the losses' largest depth


@dataclass(frozen=True)
class PaperConfig:
    """What the OMNI-DC network is built of. The defaults are the paper's network.

    resolutions: R, the number of gradient maps (1/4, 1/8, 1/16 of the image), 1 to 3.
    space: what is integrated: "linear" depth, "log" depth, or "log-normalized" depth (divided by the median of the
        measurements); only the last is independent of the unit.
    laplace: has the head that predicts the Laplace scale of the depth.
    spn_steps: DySPN propagation steps at full resolution; 0 = off.
    prior: a second depth channel from a monocular network (v1.1), see omnidc.network.paper.prior.
    released: the released code's borders (zeros outside in upsampling and DySPN), its 4 input channels, padding with
        the mean color to multiples of 16 pixels (for R = 3), and its position table for grids of 112² cells. False:
        renormalized borders, a fifth channel that marks the measured pixels, padding by repetition to multiples of 32,
        and tables that are always resized as squares.
    edge_weights: "uniform" 1/R, or one "learnable" scalar per resolution and image.
    alpha: weight of the measurements against the gradients in the integrator.
    gradient_limit: predicted gradients are clamped to ± this; None = what suits the space: 1 for log, 10 for linear.
    log_scale_floor: the smallest natural log of the Laplace scale (relative to the median of the measurements).
    tolerance: relative residual at which the integrator stops.
    width: factor of all channel counts, a value of `WIDTHS`; parameters fall with its square.
    gru_iterations: updates of the gradients, each followed by an integration; the paper has 1, OGNI-DC 5.
    integrator: False predicts depth directly at full resolution, as CompletionFormer does.
    """

    architecture: str = "paper"
    resolutions: int = 3
    space: str = "log-normalized"
    laplace: bool = True
    spn_steps: int = 6
    prior: bool = False
    released: bool = True
    edge_weights: str = "uniform"
    alpha: float = 5.0
    gradient_limit: float | None = None
    log_scale_floor: float = -2.0
    tolerance: float = 1e-6
    width: float = 1.0
    gru_iterations: int = 1
    integrator: bool = True

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
        if self.width not in WIDTHS:
            raise ConfigError(f"width must be one of {', '.join(map(str, WIDTHS))}, not {self.width!r}.")
        if self.gru_iterations < 1:
            raise ConfigError(f"gru_iterations must be 1 or more, not {self.gru_iterations!r}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PaperConfig:
        """Read what `to_dict` wrote; files written before `released` was called so have `compat`."""
        values = dict(values)
        if "compat" in values:
            values["released"] = values.pop("compat")
        return cls(**values)

    @property
    def borders(self) -> str:
        """How upsampling and DySPN treat neighbors outside the image."""
        return "zero" if self.released else "renormalized"

    @property
    def gradient_bound(self) -> float:
        """The largest absolute value of a predicted gradient."""
        if self.gradient_limit is not None:
            return self.gradient_limit
        return LINEAR_LIMIT if self.space == "linear" else LOG_LIMIT

    @property
    def depth_channels(self) -> int:
        """Depth channels of the network's input: depth, validity (unless released), prior."""
        return 1 + (not self.released) + self.prior


PAPER = PaperConfig()
# Differs from the paper's as `released` says, and by a lower floor, so that intervals below exp(−2) = 0.14 medians can
# be stated. Its training preset lowers the loss's floor as well.
PAPER_PLUS = PaperConfig(released=False, log_scale_floor=-7.0)

PRESETS: dict[str, PaperConfig] = {
    "paper": PAPER,
    "paper-plus": PAPER_PLUS,
    "paper-v1.0": replace(PAPER, laplace=False),
    "paper-v1.0-as-trained": replace(PAPER, edge_weights="learnable"),
    "paper-v1.1": replace(PAPER, laplace=False, prior=True),
    "paper-R1": replace(PAPER, resolutions=1),
    "paper-R2": replace(PAPER, resolutions=2),
    "paper-linear": replace(PAPER, space="linear"),
    "paper-log": replace(PAPER, space="log"),
    "paper-no-laplace": replace(PAPER, laplace=False),
    "paper-no-spn": replace(PAPER, spn_steps=0),
    "paper-narrow": replace(PAPER, width=0.125),
    # OGNI-DC as its test scripts run it (log depth, not normalized). Only its last iteration is supervised here; the
    # original weighs all of them.
    "ogni-dc": replace(PAPER, resolutions=1, gru_iterations=5, space="log", laplace=False),
    # The backbone and DySPN alone. The paper does not state the depth space of this baseline.
    "completionformer": replace(PAPER, integrator=False, laplace=False),
}
