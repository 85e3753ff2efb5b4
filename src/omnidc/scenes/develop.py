"""From light to picture: haze, exposure and the sRGB curve. Noise, blur and color casts come when data is loaded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnidc.scenes.description import Array

LUMINANCE = np.array([0.2126, 0.7152, 0.0722], dtype=np.float32)
SHOULDER = 0.75


def add_haze(
    light: Array,  # [H, W, 3], linear
    depth: Array,  # [H, W], meters, 0 = sky
    extinction: float,  # per meter
    air: float | None = None,  # luminance of the air; None = from this picture
) -> Array:
    """Add haze by Koschmieder's law: at distance d, e^(−βd) of the light is that of the surface, the rest is air."""
    if extinction <= 0:
        return light
    clear = np.exp(-extinction * np.where(depth > 0, depth, 2000.0))[..., None]
    tint = (air_luminance(light) if air is None else air) * np.array([0.97, 1.0, 1.03])
    return np.asarray(light * clear + tint * (1 - clear), dtype=np.float32)


def air_luminance(light: Array) -> float:
    """Return the luminance of the air: a bright, but not the brightest, part of the light [..., 3]."""
    return float(np.percentile(light @ LUMINANCE, 80))


def exposure_of(light: Array, key: float) -> float:
    """Return the factor that brings the logarithmic mean of linear light [..., 3] to `key`."""
    luminance = np.nan_to_num(np.maximum(light, 0), posinf=1e3) @ LUMINANCE
    mean = float(np.exp(np.log(luminance + 1e-4).mean()))
    bright = float(np.percentile(luminance, 97))
    # bright windows may burn out, but not take the whole picture with them
    return min(key / max(mean, 1e-5), 1.6 / max(bright, 1e-5))


def develop(light: Array, key: float, exposure: float | None = None) -> npt.NDArray[np.uint8]:
    """Return 8-bit sRGB [H, W, 3], highlights rolled off above 0.75; exposed for `key` unless `exposure` is given."""
    light = np.nan_to_num(np.maximum(light, 0), posinf=1e3)
    x = light * (exposure_of(light, key) if exposure is None else exposure)
    rolled = SHOULDER + (1 - SHOULDER) * (1 - np.exp(-(x - SHOULDER) / (1 - SHOULDER)))
    x = np.where(x > SHOULDER, rolled, x)
    coded = np.where(x <= 0.0031308, 12.92 * x, 1.055 * np.maximum(x, 1e-6) ** (1 / 2.4) - 0.055)
    return np.asarray(np.clip(coded, 0, 1) * 255 + 0.5, dtype=np.uint8)
