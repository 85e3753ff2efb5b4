"""Augmentation of training frames: geometry (scale, crop, flip), then color, then the defects of a camera.

All randomness comes from one generator. Geometry is separate because simulated sensors read the image in between:
keypoints are found before its colors change, as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from omnidc.errors import ConfigError
from omnidc.frame import Frame
from omnidc.training.settings import Settings

SMOOTH = 1.05  # ratio of neighboring depths up to which they are one surface
Image = npt.NDArray[np.uint8]  # [H, W, 3], RGB


@dataclass
class AugmentConfig(Settings):
    """Ranges and probabilities; the first block is the paper's."""

    scale_min: float = 1.0  # zoom beyond the smallest size that covers the crop
    scale_max: float = 1.5
    flip: float = 0.5
    brightness: float = 0.4  # factors are drawn from 1 ± this
    contrast: float = 0.4
    saturation: float = 0.4

    compress_log_depth: float = 0.0  # probability; depth / median is raised to a power of 0.15 to 1: a shallower scene
    stretch: float = 0.0  # one side is zoomed by up to 1 + this more than the other
    hue: float = 0.0  # probability; all colors are turned by one angle
    gray: float = 0.0  # probability; no colors
    exposure: float = 0.0  # standard deviation, in stops
    white_balance: float = 0.0  # standard deviation of each channel, in stops
    vignette: float = 0.0  # probability; the corners lose up to half of their light
    defocus: float = 0.0  # probability; Gaussian of up to 1.5 pixels
    motion: float = 0.0  # probability; a line of up to 9 pixels
    noise: float = 0.0  # probability; shot and read noise, up to 4 % at white
    jpeg: float = 0.0  # probability; quality 30 to 95

    def __post_init__(self) -> None:
        if not 1.0 <= self.scale_min <= self.scale_max:
            raise ConfigError(f"augment.scale_min {self.scale_min} must be at least 1 and at most augment.scale_max.")
        for name in ("flip", "compress_log_depth", "hue", "gray", "vignette", "defocus", "motion", "noise", "jpeg"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"augment.{name} is a probability: it must lie between 0 and 1.")


def resize_depth(
    depth: npt.NDArray[np.float32],  # [H, W], 0 = unknown
    size: tuple[int, int],  # height, width
) -> npt.NDArray[np.float32]:
    """Resize depth: bilinear on smooth surfaces, nearest pixel at edges and beside unknown depth.

    Edges stay sharp, 0 stays 0, and surfaces do not become stairs.
    """
    height, width = size
    # plain INTER_NEAREST takes the corner of a pixel, half a pixel beside what the picture shows
    nearest = np.asarray(cv2.resize(depth, (width, height), interpolation=cv2.INTER_NEAREST_EXACT), dtype=np.float32)
    if depth.shape[0] >= height and depth.shape[1] >= width:
        return nearest
    square = np.ones((3, 3), np.uint8)
    edge = (cv2.dilate(depth, square) > SMOOTH * cv2.erode(depth, square)).astype(np.uint8)
    smooth = cv2.resize(edge, (width, height), interpolation=cv2.INTER_NEAREST_EXACT) == 0
    linear = cv2.resize(depth, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.where(smooth, linear, nearest).astype(np.float32)


def random_resized_crop(frame: Frame, size: tuple[int, int], config: AugmentConfig, rng: np.random.Generator) -> Frame:
    """Return a random window of the frame, resized to `size` = (height, width), perhaps mirrored.

    Depth values do not change with the zoom. Intrinsics follow the pixels.
    """
    height, width = size
    cover = max(height / frame.height, width / frame.width)
    zoom, draw = cover * rng.uniform(config.scale_min, config.scale_max), rng.uniform(-1, 1)
    # Shrinking a side of the window stretches the picture and stays inside the frame.
    shrink_rows, shrink_columns = (1 + config.stretch * max(0.0, draw * side) for side in (1, -1))
    rows = min(frame.height, max(1, round(height / zoom / shrink_rows)))
    columns = min(frame.width, max(1, round(width / zoom / shrink_columns)))
    top = int(rng.integers(frame.height - rows + 1))
    left = int(rng.integers(frame.width - columns + 1))
    mirrored = bool(rng.random() < config.flip)
    window = np.s_[top : top + rows, left : left + columns]
    image, depth = frame.image[window], None if frame.depth is None else frame.depth[window]
    sky = None if frame.sky is None else frame.sky[window]
    if (rows, columns) != (height, width):
        smooth = cv2.INTER_AREA if rows > height else cv2.INTER_LINEAR
        image = np.asarray(cv2.resize(image, (width, height), interpolation=smooth), dtype=np.uint8)
        if depth is not None:
            depth = resize_depth(depth, (height, width))
        if sky is not None:
            sky = cv2.resize(sky.astype(np.uint8), (width, height), interpolation=cv2.INTER_NEAREST_EXACT) > 0
    intrinsics = frame.intrinsics
    if intrinsics is not None:
        sx, sy = width / columns, height / rows
        # pixel centers are integers: x' + ½ = (x − left + ½) sx
        move = np.array([[sx, 0, (0.5 - left) * sx - 0.5], [0, sy, (0.5 - top) * sy - 0.5], [0, 0, 1]])
        intrinsics = move @ intrinsics
    if mirrored:
        image = image[:, ::-1]
        depth = None if depth is None else depth[:, ::-1]
        sky = None if sky is None else sky[:, ::-1]
        if intrinsics is not None:
            # the mirrored scene, seen by a camera with positive focal length
            flip = np.array([[-1.0, 0, width - 1], [0, 1, 0], [0, 0, 1]])
            intrinsics = flip @ intrinsics @ np.diag([-1.0, 1, 1])
    return Frame(
        image=np.ascontiguousarray(image),
        depth=None if depth is None else np.ascontiguousarray(depth),
        intrinsics=intrinsics,
        unit=frame.unit,
        name=frame.name,
        sky=None if sky is None else np.ascontiguousarray(sky),
    )


def compress_log_depth(
    depth: npt.NDArray[np.float32],  # [H, W], 0 = unknown
    config: AugmentConfig,
    rng: np.random.Generator,
) -> npt.NDArray[np.float32]:
    """Replace depth D by m (D / m)^a with the probability of the configuration, m the median of D.

    Outlines stay and steps shrink, so that only the measurements determine how deep a scene is.
    """
    chance, power = rng.random(), 0.15 ** rng.random()
    known = depth > 0
    if chance >= config.compress_log_depth or not known.any():
        return depth
    median = np.median(depth[known])
    return np.where(known, median * (np.where(known, depth, median) / median) ** power, 0).astype(np.float32)


def color_jitter(image: Image, config: AugmentConfig, rng: np.random.Generator) -> Image:
    """Change brightness, contrast and saturation by random factors, exposure and white balance in linear light; hue.

    All but saturation and hue are curves of one channel, so they cost one table.
    """
    brightness, contrast, saturation = (
        1 + rng.uniform(-spread, spread) for spread in (config.brightness, config.contrast, config.saturation)
    )
    stops = rng.normal(0, 1, 4)
    gain = 2.0 ** (config.exposure * stops[0] + config.white_balance * stops[1:])  # [3]
    levels = np.linspace(0, 1, 256)[:, None]
    curve = np.minimum(levels**2.2 * gain, 1) ** (1 / 2.2) * brightness  # [256, 3]
    mean = float(cv2.mean(image)[1]) / 255 * brightness
    curve = np.clip((curve - mean) * contrast + mean, 0, 1)
    table = np.rint(curve * 255).astype(np.uint8)[:, None, :]  # [256, 1, 3]
    result: Image = np.asarray(cv2.LUT(image, table), dtype=np.uint8)
    if config.saturation:
        mixed = cv2.addWeighted(result, saturation, _without_color(result), 1 - saturation, 0)
        result = np.asarray(mixed, dtype=np.uint8)
    chance_of_hue, chance_of_gray, angle = rng.random(), rng.random(), rng.uniform(-np.pi, np.pi)
    if chance_of_gray < config.gray:
        result = _without_color(result)
    elif chance_of_hue < config.hue:
        result = np.asarray(cv2.transform(result, _hue_rotation(angle)), dtype=np.uint8)
    return result


def _without_color(image: Image) -> Image:
    return np.asarray(cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB), dtype=np.uint8)


def _hue_rotation(angle: float) -> npt.NDArray[np.float64]:  # [3, 3]
    """Return the rotation of RGB about the axis of grays."""
    across = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]]) / np.sqrt(3)
    rotation: npt.NDArray[np.float64] = np.cos(angle) * np.eye(3) + (1 - np.cos(angle)) / 3 + np.sin(angle) * across
    return rotation


def _motion_kernel(length: int, angle: float) -> npt.NDArray[np.float32]:
    kernel = np.zeros((length, length), dtype=np.float32)
    kernel[length // 2] = 1
    turn = cv2.getRotationMatrix2D((length / 2 - 0.5, length / 2 - 0.5), angle, 1)
    turned: npt.NDArray[np.float32] = np.asarray(cv2.warpAffine(kernel, turn, (length, length)), dtype=np.float32)
    return np.asarray(turned / turned.sum(), dtype=np.float32)


def degrade_image(image: Image, config: AugmentConfig, rng: np.random.Generator) -> Image:
    """Apply blur, vignette, sensor noise and JPEG compression, each with its probability."""
    height, width = image.shape[:2]
    chances = rng.random(5)
    strength = rng.random(5)
    result = image
    if chances[0] < config.defocus:
        result = np.asarray(cv2.GaussianBlur(result, (0, 0), 0.3 + 1.2 * strength[0]), dtype=np.uint8)
    if chances[1] < config.motion:
        kernel = _motion_kernel(3 + 2 * int(strength[1] * 4), rng.uniform(0, 180))
        result = np.asarray(cv2.filter2D(result, -1, kernel), dtype=np.uint8)
    shade, grain = chances[2] < config.vignette, chances[3] < config.noise
    if shade or grain:
        light = result.astype(np.float32)
        if shade:
            y, x = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
            fall = 1 - 0.25 * strength[2] * (x * x + y * y)
            light *= fall.astype(np.float32)[..., None]
        if grain:
            level = np.float32(10.2 * strength[3] ** 2)  # 4 % of 255
            # variance: read noise and a part that grows with the light
            spread = cv2.sqrt(light * (level * level * 0.75 / 255) + level * level * 0.25)
            light += spread * rng.standard_normal(light.shape, dtype=np.float32)
        result = np.asarray(cv2.convertScaleAbs(np.maximum(light, 0)), dtype=np.uint8)
    if chances[4] < config.jpeg:
        quality = 30 + int(65 * strength[4])
        _, data = cv2.imencode(".jpg", result, [cv2.IMWRITE_JPEG_QUALITY, quality])
        result = np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), dtype=np.uint8)
    return result
