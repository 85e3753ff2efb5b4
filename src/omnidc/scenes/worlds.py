"""The worlds, how often each is drawn, and the one way from a seed to a scene."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from omnidc.errors import ConfigError
from omnidc.scenes.closeups import build_closeup
from omnidc.scenes.corridors import build_corridor
from omnidc.scenes.description import Rng, Scene
from omnidc.scenes.displays import build_display
from omnidc.scenes.kitchens import build_kitchen
from omnidc.scenes.materials import Kit
from omnidc.scenes.nature import build_nature
from omnidc.scenes.offices import build_office
from omnidc.scenes.piles import build_pile
from omnidc.scenes.rooms import build_room
from omnidc.scenes.streets import build_street

WORLDS: dict[str, Callable[[Rng, Kit], Scene]] = {
    "room": build_room,
    "office": build_office,
    "kitchen": build_kitchen,
    "corridor": build_corridor,
    "closeup": build_closeup,
    "display": build_display,
    "street": build_street,
    "nature": build_nature,
    "pile": build_pile,
}
# share of scenes: 44 % interiors, 24 % close-ups and displays, 20 % streets, 5 % nature (the dearest), 7 % piles
MIX: dict[str, float] = {
    "room": 0.21,
    "office": 0.08,
    "kitchen": 0.08,
    "corridor": 0.07,
    "closeup": 0.10,
    "display": 0.14,
    "street": 0.20,
    "nature": 0.05,
    "pile": 0.07,
}


def check_worlds(worlds: Sequence[str]) -> tuple[str, ...]:
    """Return the worlds by name, all of them when none is given."""
    unknown = [world for world in worlds if world not in WORLDS]
    if unknown:
        raise ConfigError(f"There is no world {unknown[0]!r}; choose among {', '.join(WORLDS)}.")
    return tuple(worlds) or tuple(WORLDS)


def scene_rng(seed: int, number: int) -> Rng:
    """Return the generator of scene `number` of a run; the same whichever worker asks, in whichever order."""
    return np.random.default_rng([seed, number])


def world_of(seed: int, number: int, worlds: Sequence[str] = ()) -> str:
    """Return the world of scene `number`."""
    names = check_worlds(worlds)
    shares = np.array([MIX[name] for name in names])
    return str(np.random.default_rng([seed, number, 1]).choice(names, p=shares / shares.sum()))


def build_scene(seed: int, number: int, kit: Kit, worlds: Sequence[str] = ()) -> tuple[Scene, Rng]:
    """Build scene `number`, and return it with the generator to draw its views from."""
    rng = scene_rng(seed, number)
    return WORLDS[world_of(seed, number, worlds)](rng, kit), rng
