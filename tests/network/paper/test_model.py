from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from omnidc.errors import CheckpointError, ConfigError, InputError
from omnidc.network.interface import Prediction, Refinement
from omnidc.network.normalize import IMAGENET_MEAN, IMAGENET_STD, downsample_sparse, pad_to_multiple
from omnidc.network.paper.completionformer import BasicBlock
from omnidc.network.paper.config import PRESETS, PaperConfig
from omnidc.network.paper.model import PaperNetwork
from omnidc.training.losses import LossConfig

Build = Callable[[PaperConfig], PaperNetwork]
RELEASED = PRESETS["paper-v1.0"]
CASES = ["A_96x128", "C_100x130_pad", "D_64x96_synth", pytest.param("B_192x256", marks=pytest.mark.slow)]
GOLDEN = Path(__file__).parents[2] / "golden" / "paper_32x64.npz"


@pytest.fixture(scope="module")
def released(formula_network: Build) -> PaperNetwork:
    return formula_network(RELEASED)


@pytest.fixture(scope="module")
def released64(formula_network: Build) -> PaperNetwork:
    return formula_network(replace(RELEASED, tolerance=1e-12)).double()


@pytest.fixture(scope="module")
def own(formula_network: Build) -> PaperNetwork:
    return formula_network(PRESETS["paper-plus"])


def picture(height: int, width: int, batch: int = 1, share: float = 0.02) -> tuple[Tensor, Tensor]:
    """A smooth random image and measurements of a slope, 2 to 6 units deep."""
    generator = torch.Generator().manual_seed(height * width)
    coarse = torch.rand(batch, 3, 2 + height // 8, 2 + width // 8, generator=generator)
    image = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic").clamp(0, 1)
    depth = torch.linspace(2, 6, height * width).view(1, 1, height, width).repeat(batch, 1, 1, 1)
    keep = torch.rand(depth.shape, generator=generator) < share
    keep[..., 0, 0] = True
    return image, depth * keep


def stages_of(network: PaperNetwork, image: Tensor, sparse: Tensor) -> tuple[dict[str, Tensor], Prediction]:
    """Every named stage of the released model, as the golden files call them."""
    seen: dict[str, Tensor] = {}
    backbone, update = network.backbone, network.update_block
    watched = {
        "fe1": backbone.conv1,
        "former": backbone.former,
        **{f"fd{n}": getattr(backbone, f"dec{n}") for n in (6, 5, 4, 3, 2)},
        "context": backbone.ctx_dec0,
        "spn_guide": backbone.gd_dec0,
        "ub_encoder_out": update.encoder,
        "gru_hidden_out": update.gru,
        "up_mask_logits": update.mask,
        **{f"grad_r{r + 1}": decoder for r, decoder in enumerate(update.depth_grad_head.decoders)},
    }
    hooks = [
        module.register_forward_hook(lambda _, __, output, name=name: seen.__setitem__(name, output))
        for name, module in watched.items()
    ]
    steps: list[Tensor] = []
    iterate = network.prop_layer.iterate
    network.prop_layer.iterate = lambda *inputs: steps.extend(iterate(*inputs)) or steps
    try:
        prediction = network(image, sparse)
    finally:  # other tests share the network
        del network.prop_layer.iterate
        for hook in hooks:
            hook.remove()
    seen.update({f"fe{n}": x for n, x in enumerate(seen.pop("former"), start=2)})
    shift = prediction.median.log()
    seen["confidence_input"] = prediction.fields.confidence
    seen["spn_confidence_logit"] = prediction.fields.refinement.spn_confidence
    seen["dep_down"] = downsample_sparse(sparse)[0]
    seen["ddi_out_log"] = prediction.log_depth + shift
    seen["depth_up_init"] = prediction.depth_init
    seen["up_log"] = prediction.depth_init.log()
    seen.update({f"spn_iter{t}": x * prediction.median for t, x in enumerate(steps, start=1)})
    seen["pred_padded"] = prediction.depth
    return seen, prediction


def difference(ours: Tensor, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest value."""
    assert ours.shape == theirs.shape
    return float(np.abs(ours.numpy() - theirs).max() / np.abs(theirs).max())


@pytest.mark.parametrize("case", CASES)
def test_released_model_is_reproduced_stage_by_stage_in_float64(
    shared: Path, released64: PaperNetwork, case: str
) -> None:
    inputs = np.load(shared / f"reference/golden/full_{case}.npz")
    exact = np.load(shared / f"reference/golden/full_{case}_fp64.npz")
    # The exact run started from colors normalized in float32; undoing that in float64 hands them in unchanged.
    mean, std = (torch.tensor(v, dtype=torch.float64).view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    image = torch.from_numpy(inputs["net_in_rgb"]).double() * std + mean
    raw = torch.from_numpy(inputs["in_sparse_depth"]).double()[None, None]
    height, width = raw.shape[-2:]
    sparse = torch.zeros(1, 1, *image.shape[-2:], dtype=torch.float64)
    sparse[..., :height, :width] = raw
    seen, prediction = stages_of(released64, image, sparse)
    seen["pred"] = prediction.depth[..., :height, :width]
    compared = []
    for name in exact.files:
        if name.startswith("stat_"):
            x = seen[name.removeprefix("stat_")].numpy()
            ours = np.array([x.mean(), x.std(), np.abs(x).max(), np.abs(x).mean()])
            np.testing.assert_allclose(ours, exact[name], rtol=1e-9, atol=1e-12)
        elif not name.startswith("cg_"):
            assert difference(seen[name], exact[name]) < 1e-9, name
        compared.append(name)
    assert {"context", "confidence_input", "grad_r3", "ddi_out_log", "up_log", "spn_iter1", "pred"} <= set(compared)


@pytest.mark.parametrize("case", CASES)
def test_released_model_is_reproduced_stage_by_stage_in_float32(
    shared: Path, released: PaperNetwork, case: str
) -> None:
    theirs = np.load(shared / f"reference/golden/full_{case}.npz")
    exact = np.load(shared / f"reference/golden/full_{case}_fp64.npz")
    image = torch.from_numpy(theirs["in_rgb_u8"]).permute(2, 0, 1)[None].float() / 255
    sparse = torch.from_numpy(theirs["in_sparse_depth"])[None, None]
    image, sparse, (height, width) = pad_to_multiple(image, sparse, released.size_divisor, released.padding)
    seen, prediction = stages_of(released, image, sparse)
    stages = ["context", "confidence_input", "spn_confidence_logit", "ub_encoder_out", "gru_hidden_out", "dep_down"]
    for name in [*stages, "up_mask_logits", "grad_r1", "grad_r2", "grad_r3"]:
        assert np.abs(seen[name].numpy() - theirs[name]).max() < 2e-5, name
    for name in ("fe1", "fe2", "fe3", "fe4", "fe5", "fe6", "fe7", "fd6", "fd5", "fd4", "fd3", "fd2"):
        c, s = theirs[f"substride_{name}"]
        assert difference(seen[name][:, ::c, ::s, ::s], theirs[f"sub_{name}"]) < 2e-5, name
    stride = seen["spn_guide"].shape[-1] // theirs["spn_guide"].shape[-1]
    assert np.abs(seen["spn_guide"][..., ::stride, ::stride].numpy() - theirs["spn_guide"]).max() < 5e-5
    assert np.abs(seen["ddi_out_log"].numpy() - exact["ddi_out_log"]).max() < 1e-4
    pred = prediction.depth[..., :height, :width].numpy()
    assert (np.abs(pred - exact["pred"]) / exact["pred"]).max() < 1e-4
    assert (np.abs(pred - theirs["pred"]) / theirs["pred"]).max() < 3e-4


@pytest.mark.parametrize(
    ("preset", "table"),
    [
        ("paper-v1.0", "state_dict_v1.0"),
        ("paper-v1.0-as-trained", "state_dict_v1.0_as_trained"),
        ("paper-v1.1", "state_dict_v1.1"),
    ],
)
def test_names_and_shapes_are_the_released_checkpoints(shared: Path, preset: str, table: str) -> None:
    theirs = json.loads((shared / f"reference/{table}.json").read_text())
    with torch.device("meta"):
        network = PaperNetwork(PRESETS[preset])
    ours = {name: list(tensor.shape) for name, tensor in network.state_dict().items()}
    assert ours == {name: shape for name, shape, _ in theirs if not name.startswith("depth_module.")}


@pytest.mark.parametrize(
    ("preset", "digest"),
    [
        ("paper-v1.0", "7061d745038f145d6e826741e231bee4eb7515f29d171bae30632d2ce5303139"),
        ("paper-v1.0-as-trained", "49b2dc05bd073efd1a0bdec7a0b3457c39210fa81f078dacab7cfd6684aaed02"),
        ("paper-v1.1", "1aa169f28f7f62ae45b4714768f804949816278bede496797f34c86d5e7b4dbf"),
    ],
)
def test_paper_network_has_names_of_released_checkpoints(preset: str, digest: str) -> None:
    """The digests were taken where `test_names_and_shapes_are_the_released_checkpoints` passed."""
    with torch.device("meta"):
        network = PaperNetwork(PRESETS[preset])
    shapes = sorted((name, list(tensor.shape)) for name, tensor in network.state_dict().items())
    assert hashlib.sha256(json.dumps(shapes).encode()).hexdigest() == digest


def digest_of(network: PaperNetwork) -> str:
    digest = hashlib.sha256()
    for _, tensor in sorted(network.state_dict().items()):
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def test_formula_weights_are_the_golden_ones(shared: Path, released: PaperNetwork) -> None:
    check = json.loads((shared / "reference/golden/weights_check.json").read_text())
    assert digest_of(released) == check["_all_sorted_by_name_sha256"]


def test_formula_weights_have_the_golden_digest(released: PaperNetwork) -> None:
    """The digest was taken where `test_formula_weights_are_the_golden_ones` passed."""
    assert digest_of(released) == "d718c23560dcc602c8af30b88af7281361daa30a42da30d3ea15a8336c525852"


def test_has_the_papers_number_of_parameters() -> None:
    with torch.device("meta"):
        network = PaperNetwork(RELEASED)
    assert round(sum(p.numel() for p in network.parameters()) / 1e6, 2) == 85.40


@pytest.mark.parametrize("mode", ["released", "own"])
def test_our_own_golden_run_is_reproduced(formula_network: Build, mode: str) -> None:
    """Made by tests/golden/make_paper.py in float64, at a commit where the tests against ../shared passed."""
    golden = np.load(GOLDEN)
    network = formula_network(PaperConfig(released=mode == "released", log_scale_floor=-7.0, tolerance=1e-7))
    image = torch.from_numpy(golden["image"]).permute(2, 0, 1)[None].float() / 255
    prediction = network(image, torch.from_numpy(golden["sparse"])[None, None].float())
    found = golden_stages(prediction)
    assert set(found) == {name.removeprefix(f"{mode}_") for name in golden.files if name.startswith(f"{mode}_")}
    for name, value in found.items():
        assert difference(value, golden[f"{mode}_{name}"]) < 5e-5, name


def golden_stages(prediction: Prediction) -> dict[str, Tensor]:
    assert prediction.laplace_scale is not None
    stages = {
        "confidence": prediction.fields.confidence,
        "log_depth": prediction.log_depth,
        "depth_init": prediction.depth_init,
        "depth": prediction.depth,
        "scale": prediction.laplace_scale,
    }
    stages.update({f"gradient{r}": g for r, g in enumerate(prediction.fields.gradients)})
    return stages


def test_depth_is_equivariant_to_the_unit(own: PaperNetwork) -> None:
    image, sparse = picture(32, 64)
    truth = torch.linspace(2, 6, 32 * 64).view(1, 1, 32, 64)
    reference = own(image, sparse)
    rel = ((reference.depth - truth).abs() / truth).mean()
    for beta in (1e-6, 1e-3, 0.1, 10.0, 1e3, 1e6):
        prediction = own(image, beta * sparse)
        scaled = ((prediction.depth - beta * truth).abs() / (beta * truth)).mean()
        assert abs(scaled - rel) < 1e-5
        torch.testing.assert_close(prediction.depth / beta, reference.depth, rtol=1e-4, atol=0)
        torch.testing.assert_close(prediction.laplace_scale / beta, reference.laplace_scale, rtol=1e-4, atol=0)


def test_released_borders_are_not_equivariant(released: PaperNetwork) -> None:
    """The reason for our own borders: should this ever fail, the mode is no longer what was released."""
    image, sparse = picture(64, 96)
    ratio = released(image, 1000 * sparse).depth_init / released(image, sparse).depth_init / 1000
    torch.testing.assert_close(ratio[..., 8:-8, 8:-8], torch.ones(1, 1, 48, 80), rtol=1e-3, atol=0)
    assert (ratio[..., 0, :] - 1).abs().max() > 0.1


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "paper-v1.1"])
def test_every_preset_predicts(formula_network: Build, preset: str) -> None:
    config = PRESETS[preset]
    network = formula_network(config)
    image, sparse = picture(32, 64, batch=2, share=0.1)
    prediction = network(image, sparse)
    for depth in (prediction.depth, prediction.depth_init):
        assert depth.shape == sparse.shape
        assert torch.isfinite(depth).all()
        assert (depth > 0).all()
    levels = config.resolutions if config.integrator else 0
    assert [tuple(g.shape) for g in prediction.fields.gradients] == [
        (2, 2, 8 // 2**r, 16 // 2**r) for r in range(levels)
    ]
    assert (prediction.laplace_scale is not None) == config.laplace
    assert (prediction.depth is not prediction.depth_init) == (config.spn_steps > 0)
    assert bool((prediction.median == 1).all()) == (config.space != "log-normalized")
    if config.edge_weights == "learnable":
        weights = torch.stack([w[:, 0, 0, 0] for w in prediction.fields.weights])
        torch.testing.assert_close(weights.sum(0), torch.ones(2))
        assert weights.std() > 0


def test_images_of_a_batch_do_not_influence_each_other(own: PaperNetwork) -> None:
    image, sparse = picture(32, 64, batch=2, share=0.05)
    together = own(image, sparse)
    for b in range(2):
        alone = own(image[b : b + 1], sparse[b : b + 1])
        torch.testing.assert_close(together.depth[b : b + 1], alone.depth, rtol=1e-4, atol=0)


def test_warm_start_reaches_same_solution_in_fewer_iterations(own: PaperNetwork) -> None:
    image, sparse = picture(64, 96)
    cold = own(image, sparse)
    warm = own(image, 2 * sparse, warm_start=cold.log_depth + (2 * cold.median).log())
    torch.testing.assert_close(warm.depth, 2 * cold.depth, rtol=1e-4, atol=0)
    assert (warm.info.iterations < cold.info.iterations).all()


def test_nothing_measured_gives_finite_relative_depth(own: PaperNetwork, released: PaperNetwork) -> None:
    image, sparse = picture(32, 32)
    for network in (own, released):
        prediction = network(image, torch.zeros_like(sparse))
        assert torch.isfinite(prediction.depth).all()
        assert prediction.median.item() == 1
        assert not prediction.info.is_constrained.any()


def test_log_point_at_median_counts_unless_released(own: PaperNetwork, released: PaperNetwork) -> None:
    image = torch.rand(1, 3, 32, 32)
    at_median = torch.zeros(1, 1, 32, 32)
    at_median[..., 5, 5] = 1.0
    nothing = torch.zeros_like(at_median)
    assert torch.equal(released.depth_channels(image, at_median, None), released.depth_channels(image, nothing, None))
    assert not torch.equal(own.depth_channels(image, at_median, None), own.depth_channels(image, nothing, None))


def test_images_smaller_than_the_coarsest_cell_run(released: PaperNetwork) -> None:
    image, sparse = picture(16, 48, share=0.1)
    prediction = released(image, sparse)
    assert prediction.depth.shape == (1, 1, 16, 48)
    assert prediction.log_depth.shape == (1, 1, 4, 12)
    assert torch.isfinite(prediction.depth).all()


def test_sizes_that_do_not_fit_are_refused(own: PaperNetwork) -> None:
    with pytest.raises(InputError, match="multiples of 32"):
        own(torch.rand(1, 3, 40, 64), torch.rand(1, 1, 40, 64))


def test_gradients_reach_every_weight(formula_network: Build) -> None:
    network = formula_network(replace(PRESETS["paper-plus"], edge_weights="learnable"))
    network.requires_grad_(True)
    image, sparse = picture(32, 64, share=0.1)
    prediction = network(image, sparse)
    assert prediction.laplace_scale is not None
    (prediction.depth.sum() + prediction.laplace_scale.sum()).backward()
    dead = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # the depth encoder's inputs are all zero before the first update: its first weights, biases aside, never matter
    assert dead == ["update_block.encoder.convd1.weight", "update_block.encoder.convg1.weight"]


def test_position_table_is_resized_unless_released(own: PaperNetwork, released: PaperNetwork) -> None:
    table = released.backbone.former.pos_embed1
    raster = table.transpose(1, 2).unflatten(2, (56, 224))
    assert torch.equal(released.backbone.former.position(1, 56, 224), raster)
    resized = own.backbone.former.position(1, 56, 224)
    assert not torch.equal(resized, raster)
    torch.testing.assert_close(
        own.backbone.former.position(1, 112, 112), table.transpose(1, 2).unflatten(2, (112, 112))
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"resolutions": 4},
        {"space": "cubic"},
        {"edge_weights": "none"},
        {"spn_steps": -1},
        {"width": 0.3},
        {"gru_iterations": 0},
    ],
)
def test_impossible_configurations_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        PaperConfig(**wrong)


def test_stochastic_depth_keeps_the_mean() -> None:
    from omnidc.network.paper.completionformer import JointBlock

    with torch.device("meta"):
        block = JointBlock(64, 4, 1, drop_path=0.25)
    torch.manual_seed(0)
    dropped = block.train().dropped(torch.ones(20000, 2, 3))
    assert dropped.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (dropped.std((1, 2)) == 0).all()
    assert abs(dropped.mean() - 1) < 0.02
    assert torch.equal(block.eval().dropped(torch.ones(2, 1, 1)), torch.ones(2, 1, 1))


def test_new_networks_start_with_the_papers_random_weights() -> None:
    from omnidc.network.paper.completionformer import CompletionFormer

    torch.manual_seed(0)
    backbone = CompletionFormer(1, released=True)
    backbone.initialize()
    q = backbone.former.block1[0].attn.q
    assert isinstance(q, nn.Linear)
    assert 0.018 < q.weight.std() < 0.022
    assert q.bias.abs().sum() == 0
    assert 0.018 < backbone.former.pos_embed4.std() < 0.022


def test_paper_preset_is_the_papers_network() -> None:
    config = PRESETS["paper"]
    with torch.device("meta"):
        network = PaperNetwork(config)
    assert network.backbone.conv1_dep[0].in_channels == 1  # with RGB: 4 input channels
    assert network.prop_layer.borders == "zero"
    assert config.log_scale_floor == LossConfig().min_log_scale == -2


def test_scale_has_the_floor_of_the_loss(formula_network: Build) -> None:
    """No scale is returned that the loss, which clamps at −2, never trained."""
    network = formula_network(PRESETS["paper"])
    image, sparse = picture(32, 64, share=0.1)
    fields = network.fields(image, sparse)
    for logit in (-5.0, -1.0):
        maps = replace(fields.refinement, log_scale=torch.full((1, 1, 32, 64), logit))
        fields = replace(fields, refinement=maps)
        scale = network.refine(fields, torch.zeros(1, 1, 8, 16), sparse)[2]
        assert scale is not None
        assert scale.min() == pytest.approx(np.exp(max(logit, -2.0)))


def test_narrow_network_has_at_most_two_million_weights() -> None:
    with torch.device("meta"):
        network = PaperNetwork(PRESETS["paper-narrow"])
    assert sum(p.numel() for p in network.parameters()) <= 2e6


def test_gru_iterations_after_the_first_read_the_depth(formula_network: Build) -> None:
    once, twice = (formula_network(replace(PRESETS["paper"], gru_iterations=n)) for n in (1, 2))
    assert once.state_dict().keys() == twice.state_dict().keys()
    image, sparse = picture(32, 64, share=0.1)
    nearer = sparse.clone()
    nearer[..., :32] *= 0.5
    first = once.fields(image, sparse / 4)
    second, other = twice.fields(image, sparse / 4), twice.fields(image, nearer / 4)
    assert not torch.allclose(first.gradients[0], second.gradients[0])
    assert not torch.allclose(second.gradients[0], other.gradients[0])


def test_training_sees_every_gru_iteration(formula_network: Build) -> None:
    once, twice, thrice = (formula_network(replace(PRESETS["paper"], gru_iterations=n)) for n in (1, 2, 3))
    inputs = picture(32, 64, share=0.1)
    thrice.training = True  # of the network alone: its layers compute as in the others
    result = thrice(*inputs)
    assert len(result.earlier) == 2
    for earlier, expected in zip(result.earlier, (once(*inputs), twice(*inputs))):
        torch.testing.assert_close(earlier.depth, expected.depth)
        torch.testing.assert_close(earlier.fields.gradients, expected.fields.gradients)
    assert once(*inputs).earlier == ()


def test_gru_iterations_of_small_images_run(formula_network: Build) -> None:
    network = formula_network(PRESETS["ogni-dc"])
    image, sparse = picture(16, 48, share=0.1)
    assert torch.isfinite(network(image, sparse).depth).all()


def test_gru_gradients_reach_the_depth_encoder(formula_network: Build) -> None:
    network = formula_network(replace(PRESETS["paper"], gru_iterations=2))
    network.requires_grad_(True)
    network(*picture(32, 64, share=0.1)).depth.sum().backward()
    assert network.update_block.encoder.convd1.weight.grad.abs().sum() > 0


def test_completionformer_alone_cannot_be_tiled(formula_network: Build) -> None:
    network = formula_network(PRESETS["completionformer"])
    image, sparse = picture(32, 64, share=0.1)
    fields = network.fields(image, sparse)
    with pytest.raises(InputError, match="tiled"):
        network.integrate(replace(fields, refinement=Refinement()), sparse)


def test_resnet_weights_fill_the_first_two_stages(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = PaperNetwork(PRESETS["paper-R1"])
    state = network.backbone.former.state_dict()
    resnet = {
        name.replace("embed_layer", "layer"): torch.rand_like(tensor.float()).to(tensor.dtype)
        for name, tensor in state.items()
        if name.startswith("embed_layer")
    }
    torch.save({**resnet, "fc.weight": torch.rand(3, 3)}, tmp_path / "resnet34.pth")
    network.encoder.load_imagenet(tmp_path / "resnet34.pth")
    for name, tensor in resnet.items():
        assert torch.equal(network.backbone.former.state_dict()[name.replace("layer", "embed_layer")], tensor)


def test_wrong_resnet_file_is_named_in_one_sentence(tmp_path: Path) -> None:
    torch.save({"layer1.0.conv1.weight": torch.rand(2, 2)}, tmp_path / "other.pth")
    with pytest.raises(CheckpointError, match="ResNet-34"):
        PaperNetwork(PRESETS["paper-narrow"]).encoder.load_imagenet(tmp_path / "other.pth")


@pytest.mark.parametrize(("space", "limit"), [("linear", 10.0), ("log", 1.0), ("log-normalized", 1.0)])
def test_clamp_and_unit_suit_the_space(space: str, limit: float) -> None:
    network = PaperNetwork(PaperConfig(space=space, width=0.125)).eval()
    torch.nn.init.constant_(network.update_block.depth_grad_head.decoders[0].bias, 100.0)
    image, sparse = picture(32, 64, share=0.1)
    with torch.no_grad():
        prediction = network(image, sparse)
    assert prediction.fields.gradients[0].max() == limit
    assert prediction.fields.space == ("linear" if space == "linear" else "log")
    assert (prediction.median == 1).all() == (space != "log-normalized")


def test_given_clamp_wins_over_that_of_the_space() -> None:
    """Files of earlier versions state it."""
    assert PaperConfig.from_dict({"space": "linear", "gradient_limit": 1.0}).gradient_bound == 1.0


def test_old_files_with_compat_still_open() -> None:
    values = PaperConfig(released=False).to_dict()
    values["compat"] = values.pop("released")
    assert PaperConfig.from_dict(values) == PaperConfig(released=False)


def test_basic_block_channels_last_gradients_agree() -> None:
    """The twin is ResNet's strided 1 × 1 shortcut, whose channels-last gradient is wrong in oneDNN (issue 6035)."""
    torch.manual_seed(0)
    block = BasicBlock(8, 16, stride=2).eval()  # batch statistics would amplify rounding
    plain = copy.deepcopy(block)
    assert block.downsample is not None
    assert plain.downsample is not None
    strided = nn.Conv2d(8, 16, 1, stride=2, bias=False)
    strided.load_state_dict(block.downsample[0].state_dict())
    plain.downsample[0], plain.stride = strided, 1
    block.to(memory_format=torch.channels_last)
    image = torch.rand(2, 8, 96, 128)
    for network, x in ((block, image.contiguous(memory_format=torch.channels_last)), (plain, image)):
        network(x).square().mean().backward()
    for fast, slow in zip(block.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(fast.grad, slow.grad, atol=1e-5, rtol=1e-3)
