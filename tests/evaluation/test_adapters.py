"""The adapters of examples/, run with stand-ins of the interfaces that they call."""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from omnidc.errors import ConfigError

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "adapters"
ADAPTERS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "common"))
MONOCULAR = ["depth_anything_v2", "depth_anything_3", "marigold", "moge", "zoe_depth"]
HEIGHT, WIDTH = 30, 46
K = np.array([[40.0, 0, 23], [0, 40, 15], [0, 0, 1]])


def scene() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Image, sparse and true depth of a slope from 2 m to 6 m; the red channel is proportional to depth."""
    depth = np.broadcast_to(np.linspace(2, 6, WIDTH, dtype=np.float32), (HEIGHT, WIDTH)).copy()
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    image[..., 0] = np.rint(40 * depth)
    sparse = np.zeros_like(depth)
    sparse[::5, ::5] = depth[::5, ::5]
    return image, sparse, depth


def filled(sparse: Tensor) -> Tensor:
    """[B, 1, H, W]: empty pixels take the mean of the points."""
    assert sparse.ndim == 4
    assert sparse.shape[1] == 1
    return torch.where(sparse > 0, sparse, sparse[sparse > 0].mean())


class Network(nn.Module):
    """What most stand-ins need of a network: weights that load, and a place."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    @classmethod
    def from_pretrained(cls, name: str, **kwargs: Any) -> Any:
        assert name
        return cls()


class SampleNetwork(Network):
    """Takes {"rgb", "dep", …} and answers {"pred"}: OMNI-DC, OGNI-DC, CompletionFormer, Any2Full."""

    def forward(self, sample: dict[str, Any]) -> dict[str, Tensor]:
        assert sample["rgb"].shape[1] == 3
        assert sample["rgb"].shape[-2:] == sample["dep"].shape[-2:]
        return {"pred": filled(sample["dep"])}


class BPNet(Network):
    def forward(self, image: Tensor, sparse: Tensor, camera: Tensor) -> list[Tensor]:
        assert image.shape[-1] % 32 == image.shape[-2] % 32 == 0
        assert camera.shape == (1, 3, 3)
        return [sparse, filled(sparse)]


class UNet(Network):
    def forward(self, rgb: Tensor, point: Tensor, hole: Tensor) -> Tensor:
        assert 0 <= rgb.min() <= rgb.max() <= 1
        assert point.max() <= 1
        assert torch.equal(hole, (point > 0).float())
        return filled(point)


@dataclass
class ProConfig:
    checkpoint_uri: str = ""


class DepthPro(Network):
    def infer(self, x: Tensor) -> dict[str, Tensor]:
        return {"depth": 255 * x[0] / 40}


class DAv2(Network):
    def infer_image(self, bgr: np.ndarray) -> np.ndarray:
        return 1 / (3 * bgr[..., 2].astype(np.float64))  # red comes last


class DA3(Network):
    def inference(self, images: list[np.ndarray]) -> SimpleNamespace:
        return SimpleNamespace(depth=np.stack([image[::2, ::2, 0].astype(np.float32) for image in images]))


class MoGe(Network):
    def infer(self, image: Tensor, use_fp16: bool = True) -> dict[str, Tensor]:
        assert image.ndim == 3
        depth = image[0].clone()
        depth[0, 1] = torch.inf  # no point lies there
        return {"depth": depth}


class Zoe(Network):
    def infer_pil(self, image: Any) -> np.ndarray:
        return np.asarray(image)[..., 0].astype(np.float32)


class Marigold(Network):
    def __call__(self, image: Any, **options: Any) -> SimpleNamespace:
        assert isinstance(options["generator"], torch.Generator)
        return SimpleNamespace(depth_np=np.asarray(image)[..., 0] / 255)


class MarigoldDC(Network):
    scheduler = SimpleNamespace(config={})

    def __call__(self, image: Any, sparse_depth: np.ndarray, **options: int) -> np.ndarray:
        assert sparse_depth.shape == (image.height, image.width)
        return np.where(sparse_depth > 0, sparse_depth, sparse_depth[sparse_depth > 0].mean())


class PriorDA(Network):
    def infer_one_sample(self, image: np.ndarray, prior: np.ndarray, pattern: str | None) -> Tensor:
        assert image.shape[:2] == prior.shape
        return filled(torch.from_numpy(prior)[None, None]).squeeze()


class PromptProcessor(Network):
    """transformers' image processor: the image becomes a tensor, the prompt meters [B, 1, h, w]."""

    def __call__(
        self, images: np.ndarray, prompt_depth: np.ndarray, prompt_scale_to_meter: float, return_tensors: str
    ) -> Inputs:
        assert images.dtype == np.uint8
        assert prompt_depth.shape == (192, 256)
        assert return_tensors == "pt"
        return Inputs(prompt_depth=torch.from_numpy(prompt_scale_to_meter * prompt_depth)[None, None])

    def post_process_depth_estimation(
        self, outputs: SimpleNamespace, target_sizes: list[tuple[int, int]]
    ) -> list[dict[str, Tensor]]:
        depth = outputs.predicted_depth[:, None]
        return [{"predicted_depth": nn.functional.interpolate(depth, target_sizes[0]).squeeze()}]


class Inputs(dict[str, Tensor]):
    def to(self, device: torch.device) -> Inputs:
        return self


class PromptDA(Network):
    def forward(self, prompt_depth: Tensor) -> SimpleNamespace:
        return SimpleNamespace(predicted_depth=prompt_depth[:, 0])


class LDCM(Network):
    def infer(self, image: Tensor, prior: Tensor) -> dict[str, Tensor]:
        assert 0 <= image.min() <= image.max() <= 1
        return {"depth_pred": filled(prior)}


class DFU(Network):
    def forward(self, sample: dict[str, Tensor]) -> dict[str, list[Tensor]]:
        assert sample.keys() == {"rgb", "dep", "dep_clear", "ip"}
        assert all(value.shape[-1] % 16 == value.shape[-2] % 16 == 0 for value in sample.values())
        return {"results": [sample["dep"], torch.where(sample["dep"] > 0, sample["dep_clear"], sample["ip"])]}


class DepthPrompting(SampleNetwork):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        assert (args.data_name, args.max_depth) in {("NYU", 10.0), ("KITTIDC", 80.0)}


class LingBot(Network):
    def infer(self, image: Tensor, depth_in: Tensor, apply_mask: bool) -> dict[str, Tensor]:
        assert depth_in.ndim == 3
        return {"depth": filled(depth_in[None])[0]}


# adapter: modules and attributes that it imports
MODULES: dict[str, dict[str, dict[str, Any]]] = {
    "omni_dc": {"config": {"args": argparse.Namespace()}, "model.ognidc": {"OGNIDC": SampleNetwork}},
    "ogni_dc": {"config": {"args": argparse.Namespace()}, "model.ognidc": {"OGNIDC": SampleNetwork}},
    "completionformer": {
        "config": {"args": argparse.Namespace()},
        "model.completionformer": {"CompletionFormer": SampleNetwork},
    },
    "bp_net": {"models": {"Pre_MF_Post": BPNet}},
    "g2_monodepth": {"src.networks": {"UNet": UNet}},
    "depth_pro": {
        "depth_pro": {
            "create_model_and_transforms": lambda config, device: (
                DepthPro(),
                lambda image: torch.from_numpy(image / np.float32(255)).permute(2, 0, 1).float(),
            )
        },
        "depth_pro.depth_pro": {"DEFAULT_MONODEPTH_CONFIG_DICT": ProConfig()},
    },
    "depth_anything_v2": {"depth_anything_v2.dpt": {"DepthAnythingV2": DAv2}},
    "depth_anything_3": {"depth_anything_3.api": {"DepthAnything3": DA3}},
    "moge": {"moge.model.v2": {"MoGeModel": MoGe}},
    "marigold": {"marigold": {"MarigoldDepthPipeline": Marigold}},
    "marigold_dc": {
        "marigold_dc": {"MarigoldDepthCompletionPipeline": MarigoldDC},
        "diffusers": {"DDIMScheduler": SimpleNamespace(from_config=lambda config, timestep_spacing: None)},
    },
    "prior_depth_anything": {"prior_depth_anything": {"PriorDepthAnything": PriorDA}},
    "prompt_da": {"transformers": {"AutoImageProcessor": PromptProcessor, "AutoModelForDepthEstimation": PromptDA}},
    "any2full": {"model.ours.any2full": {"Any2Full": SampleNetwork}},
    "ldcm": {"ldcm": {"LDCMModel": LDCM}},
    "dfu": {
        "configs.config": {"get_cfg_defaults": lambda: SimpleNamespace(merge_from_file=lambda path: None)},
        "model.LRRU_with_Three_DFU": {"Model": DFU},
        "dataloaders.NNfill": {"fill_in_fast": lambda depth, **options: np.full((1, *depth.shape), depth.max())},
        "dataloaders.utils": {"outlier_removal": lambda depth: (depth, None)},
    },
    "depth_prompting": {
        "config": {"args": argparse.Namespace()},
        "model.ours.depth_prompt_main": {"depthprompting": DepthPrompting},
    },
    "lingbot_depth": {"mdm.model.v2": {"MDMModel": LingBot}},
    "zoe_depth": {},
}
# adapter: the key of the weights in its checkpoint; "" = the weights themselves
CHECKPOINTS = {
    "omni_dc": "net",
    "ogni_dc": "net",
    "completionformer": "net",
    "bp_net": "net",
    "g2_monodepth": "network",
    "depth_anything_v2": "",
    "any2full": "state_dict",
    "depth_prompting": "state_dict",
}


def load(name: str) -> ModuleType:
    return importlib.import_module(f"examples.adapters.{name}")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave neither stand-ins nor paths behind."""
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.split(".")[0] in {"examples", *(m.split(".")[0] for mods in MODULES.values() for m in mods)}:
            del sys.modules[name]


@pytest.fixture
def adapter(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The adapter of the test's parameter with its stand-ins and files in place."""
    name: str = request.param
    for module, attributes in MODULES[name].items():
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            part = ".".join(parts[:end])
            if part not in sys.modules:
                monkeypatch.setitem(sys.modules, part, ModuleType(part))
        for attribute, value in attributes.items():
            setattr(sys.modules[module], attribute, value)
    monkeypatch.setattr(torch.hub, "load", lambda *args, **kwargs: Zoe())
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    for variable in set(re.findall(r"\b[A-Z0-9_]+_(?:REPO|CHECKPOINT|NYU|KITTI)\b", source)):
        path = tmp_path / ("repository" if variable.endswith("REPO") else "model_vitl.pth")
        if variable.endswith("REPO"):
            path.mkdir(exist_ok=True)
        else:
            weights = {"weight": torch.ones(1)}
            key = CHECKPOINTS.get(name, "")
            torch.save({key: weights} if key else weights, path)
        monkeypatch.setenv(variable, str(path))
    return load(name)


@pytest.mark.parametrize("adapter", ADAPTERS, indirect=True)
def test_adapter_gives_depth_of_the_images_size(adapter: ModuleType) -> None:
    image, sparse, truth = scene()
    names = ("complete", "indoor", "outdoor", "aligned")
    methods = [getattr(adapter, name) for name in names if hasattr(adapter, name)]
    assert methods
    for method in methods:
        depth = method(image, sparse, K)
        assert depth.shape == sparse.shape
        assert depth.dtype == np.float32
        assert np.isfinite(depth).all()
        # meters in, meters out: all stand-ins keep the points or know the truth
        points = sparse > 0
        assert np.abs(depth[points] / truth[points] - 1).mean() < 0.05


@pytest.mark.parametrize(
    "adapter", ["depth_anything_v2", "depth_anything_3", "marigold", "moge", "zoe_depth"], indirect=True
)
def test_monocular_adapters_serve_as_priors(adapter: ModuleType) -> None:
    image, _, _ = scene()
    prior = adapter.disparity if hasattr(adapter, "disparity") else adapter.depth
    assert prior(image).shape == image.shape[:2]


def test_every_adapter_has_a_stand_in_and_a_line_in_the_list() -> None:
    assert set(ADAPTERS) == set(MODULES)
    listed = re.findall(r"^\| `(\w+)`", (FOLDER / "README.md").read_text(encoding="utf-8"), flags=re.M)
    assert set(listed) == set(ADAPTERS)


@pytest.mark.parametrize("name", ADAPTERS)
def test_adapter_names_the_commit_that_was_read(name: str) -> None:
    assert re.search(r"\bat [0-9a-f]{7}\b", (FOLDER / f"{name}.py").read_text(encoding="utf-8").split('"""')[1])


def test_unset_variable_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OGNI_DC_REPO", raising=False)
    image, sparse, _ = scene()
    with pytest.raises(ConfigError, match="OGNI_DC_REPO"):
        load("ogni_dc").indoor(image, sparse, None)


def test_camera_is_demanded_where_it_is_needed() -> None:
    image, sparse, _ = scene()
    with pytest.raises(ConfigError, match="camera"):
        load("bp_net").indoor(image, sparse, None)
