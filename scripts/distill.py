"""A compact network as wide as `CompactConfig` says, made from a wider one.

    python scripts/distill.py --data FRAMES --teacher teacher.safetensors -o student.safetensors

Of each layer that becomes narrower the channels with the largest effect are kept. Then trunk and heads learn the
teacher's outputs by regression, on the images and simulated sensors of the preset: no ground truth but for the sky,
and no gradient through the solver, so that a step is cheap. The encoder stays. Resumes from the file beside --out.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm import tqdm

from omnidc.io.files import atomic_path
from omnidc.network.checkpoint import load_network, save_network
from omnidc.network.compact import LOCAL_CHANNELS, CompactConfig, CompactNetwork
from omnidc.network.normalize import normalization
from omnidc.training.batch import Batch
from omnidc.training.config import from_tables, read_preset
from omnidc.training.data import open_sources
from omnidc.training.samples import Request, Samples

SIZES = ((192, 256), (224, 288), (256, 320), (288, 384))
BATCH = 4
ITERATIONS = 8  # of the teacher's solver
FINAL_RATE = 1e-5
COARSE_RATE = 0.1  # factor of the learning rate at 1/8 and coarser
SAVE_EVERY = 200  # steps

# What the student must give, and how much it counts
OUTPUTS = {
    **{f"trunk.{name}": 1.0 for name in ("down8", "up8", "up16", "bottleneck")},
    **{f"gradient_heads.{level}": 2.0 for level in range(4)},
    **dict.fromkeys(("half_head", "upsample2", "full_head"), 1.0),
}
SKY, SKY_WEIGHT = 1, 1.0  # the channel of half_head that learns the rendered masks, too
POOLED = (4, 16)  # cells along blocks whose mean gradients are compared, too: the solver adds up common errors

# Of each layer whose width may change: whose channels it gives and takes. Channels of one name are the same everywhere.
FINE = {
    "trunk.fuse2": ("x2", ""),
    "trunk.down4": ("x4", "x2"),
    "trunk.fuse4": ("x4", ""),
    "trunk.block4.conv1": ("block4", "x4"),
    "trunk.block4.conv2": ("x4", "block4"),
    "trunk.down8": ("", "x4"),
    "trunk.lateral4": ("x4", ""),
    "trunk.up4.conv1": ("up4", "x4"),
    "trunk.up4.conv2": ("x4", "up4"),
    "trunk.lateral2": ("x2", "x4"),
    "trunk.up2.conv1": ("up2", "x2"),
    "trunk.up2.conv2": ("x2", "up2"),
    "gradient_heads.0.1": ("head0", "x2"),
    "gradient_heads.0.3": ("", "head0"),
    "gradient_heads.1.1": ("head1", "x4"),
    "gradient_heads.1.3": ("", "head1"),
    "refine2.0": ("refine0", "x2"),
    "refine2.2": ("refine1", "refine0"),
    "half_head": ("", "refine1"),
    "upsample2": ("", "refine1"),
    "full_head": ("", "refine1"),
}
BLOCKS = ("trunk.block8", "trunk.block16.0", "trunk.block16.1", "trunk.up16", "trunk.up8")
FLOW = {
    **FINE,
    **{f"{block}.conv1": (block, "") for block in BLOCKS},
    **{f"{block}.conv2": ("", block) for block in BLOCKS},
    **{f"gradient_heads.{level}.1": (f"head{level}", "") for level in (2, 3)},
    **{f"gradient_heads.{level}.3": ("", f"head{level}") for level in (2, 3)},
}
GAINS = {"trunk.block4": "x4", "trunk.up4": "x4", "trunk.up2": "x2"}  # channels of each block's gain


class Recorder:
    """The inputs and outputs of some layers in the last forward pass of a network."""

    def __init__(self, network: nn.Module, names: Iterable[str]) -> None:
        self.inputs: dict[str, tuple[Any, ...]] = {}
        self.outputs: dict[str, Any] = {}
        for name in names:
            network.get_submodule(name).register_forward_hook(self._hook(name))

    def _hook(self, name: str):  # type: ignore[no-untyped-def]
        def keep(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            self.inputs[name], self.outputs[name] = inputs, output

        return keep


def run_teacher(teacher: CompactNetwork, batch: Batch) -> None:
    """Run all layers that a `Recorder` may need: stages 1 to 3 and the heads of stage 4."""
    with torch.no_grad():
        solved = teacher._solve_fields(batch.image.float() / 255, batch.sparse, normalization(batch.sparse))
        teacher.full_head(solved.x2)


def run_student(student: CompactNetwork, teacher: Recorder) -> None:
    """Run trunk and heads; color, first guess and solution are the teacher's."""
    features = student.trunk(*teacher.inputs["trunk"])
    for head, one in zip(student.gradient_heads, features, strict=False):
        head(one)
    (joined,) = teacher.inputs["refine2.0"]
    x2 = student.refine2(torch.cat([F.relu(features[0]), joined[:, -LOCAL_CHANNELS:]], dim=1))
    for head in (student.half_head, student.upsample2, student.full_head):
        head(x2)


def distance(results: dict[str, Tensor], wanted: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
    """Mean absolute difference of each output, in standard deviations of its channels; cross entropy of the sky."""
    distances = {}
    for name in OUTPUTS:
        result, target = results[name], wanted[name]
        deviation = target.std(dim=(0, 2, 3), keepdim=True).clamp_min(1e-2)
        error = (result - target) / deviation
        apart = error.abs()
        if name.startswith("gradient_heads"):  # of log depth: nearly 0 but at depth edges, which an L1 loss would miss
            apart = torch.cat([apart[:, :2] + apart[:, :2].square(), apart[:, 2:]], dim=1)
        distances[name] = apart.mean()
        if name.startswith("gradient_heads"):
            blocks = [size for size in POOLED if size <= min(error.shape[-2:])]
            pooled = [0.5 * size * F.avg_pool2d(error[:, :2], size).abs().mean() for size in blocks]
            distances[name] = distances[name] + torch.stack(pooled).sum() * 2 / error.shape[1]
    sky, known = F.avg_pool2d(batch.sky.float(), 2), F.avg_pool2d((batch.sky | (batch.gt_depth > 0)).float(), 2)
    logit = results["half_head"][:, SKY : SKY + 1]
    entropy = F.binary_cross_entropy_with_logits(logit, sky, reduction="none")
    distances["sky"] = (known * entropy).sum() / known.sum().clamp_min(1)
    return distances


def make_student(teacher: CompactNetwork, recorder: Recorder) -> CompactNetwork:
    """A network of the default widths that starts with the teacher's most important channels.

    The importance of a channel is its standard deviation times the weights of the layers that take it. Channels beyond
    those of the teacher are random, and have no effect at the start.
    """
    usual = CompactConfig()
    widths = {name: getattr(usual, name) for name in ("channels", "down_hidden", "up_hidden", "head_hidden")}
    student = CompactNetwork(replace(teacher.config, **widths, refine_hidden=usual.refine_hidden))
    own, given = student.state_dict(), teacher.state_dict()
    names = {gives: name for name, (gives, _) in FLOW.items() if gives}
    before, after = ({key: len(one[f"{name}.bias"]) for key, name in names.items()} for one in (given, own))
    importance = {key: torch.zeros(count) for key, count in before.items()}
    for name, (_, takes) in FLOW.items():
        if takes:
            deviation = recorder.inputs[name][0].std(dim=(0, 2, 3))
            weight = (given[f"{name}.weight"].square().sum(dim=(0, 2, 3)).sqrt() * deviation)[: before[takes]]
            importance[takes] += weight / weight.sum()
    kept = {key: one.topk(min(before[key], after[key])).indices.sort().values for key, one in importance.items()}
    tensors = {name: given[name] for name in own if given[name].shape == own[name].shape}
    for name, (gives, takes) in FLOW.items():
        weight, bias = given[f"{name}.weight"], given[f"{name}.bias"]
        if gives:
            more = after[gives] - len(kept[gives])
            # One random kernel for all inputs, whose number may differ here and in the student
            new = own[f"{name}.weight"][len(kept[gives]) :, :1].expand(-1, weight.shape[1], -1, -1)
            weight, bias = torch.cat([weight[kept[gives]], new]), F.pad(bias[kept[gives]], (0, more))
        if takes:
            none = torch.zeros(len(weight), after[takes] - len(kept[takes]), *weight.shape[2:])
            weight = torch.cat([weight[:, kept[takes]], none, weight[:, before[takes] :]], dim=1)
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = weight, bias
    for block, stream in GAINS.items():
        tensors[f"{block}.gain"] = given[f"{block}.gain"][kept[stream]]
    student.load_state_dict(tensors)
    return student


def trained_parameters(student: CompactNetwork) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the parameters at 1/2 and 1/4, and the others of trunk and heads; the encoder is not trained."""
    trained = [
        (name, one)
        for name, one in student.named_parameters()
        if name.startswith(("trunk.", "gradient_heads.", *FINE)) and not name.startswith("trunk.encoder.")
    ]
    fine = {*FINE, *GAINS}
    return (
        [one for name, one in trained if name.rpartition(".")[0] in fine],
        [one for name, one in trained if name.rpartition(".")[0] not in fine],
    )


def batches(data: str, seed: int, first: int) -> Iterator[Batch]:
    """Samples of the preset, in an order that depends on the step alone."""
    tables = read_preset("compact")
    tables["data"]["sources"] = {"scenes": data}
    config = from_tables({**tables, "phase": []})
    source = open_sources(config.data)["scenes"].split(config.data.val_fraction)[0]

    def requests() -> Iterator[list[Request]]:
        for step in itertools.count(first):
            rng = np.random.default_rng([seed, step])
            height, width = SIZES[rng.integers(len(SIZES))]
            chosen = source.indices[rng.integers(len(source.indices), size=BATCH)]
            yield [Request(step, slot, height, width, 0, int(index)) for slot, index in enumerate(chosen)]

    samples = Samples([source], config.data, config.augment, seed)
    return iter(DataLoader(samples, batch_sampler=requests(), collate_fn=Batch.collate, num_workers=1))  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--data", required=True, help="frames of `omnidc scenes`")
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="student to go on from, instead of the teacher's channels")
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate at the start; it falls to 1e-5")
    parser.add_argument("--steps", type=int, default=5000)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    teacher = load_network(arguments.teacher)
    if not isinstance(teacher, CompactNetwork):
        raise SystemExit(f"{arguments.teacher} is no compact network.")
    teacher.for_inference()
    recorder = Recorder(teacher, {"trunk", "trunk.encoder", *FLOW, *OUTPUTS})
    run_teacher(teacher, next(batches(arguments.data, 0, 0)))
    student = make_student(teacher, recorder)
    if arguments.start:
        student.load_state_dict(load_network(arguments.start).state_dict())
    learned = Recorder(student, OUTPUTS)
    teacher.config = replace(teacher.config, iterations=ITERATIONS)
    fine, coarse = trained_parameters(student)
    optimizer = torch.optim.Adam([{"params": fine}, {"params": coarse}], lr=arguments.rate)
    student.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    student.trunk.encoder.forward = lambda image: recorder.outputs["trunk.encoder"]  # type: ignore[method-assign]
    state = arguments.out.with_suffix(".pt")
    first = 0
    if state.exists():
        first, weights, moments = torch.load(state)
        student.load_state_dict(weights)
        optimizer.load_state_dict(moments)
    stream = batches(arguments.data, 1, first)
    progress = tqdm(range(first, arguments.steps), initial=first, total=arguments.steps, unit="step")
    for step in progress:
        rate = float(FINAL_RATE + (arguments.rate - FINAL_RATE) * (1 + np.cos(np.pi * step / arguments.steps)) / 2)
        for group, factor in zip(optimizer.param_groups, (1.0, COARSE_RATE)):
            group["lr"] = rate * factor
        batch = next(stream)
        run_teacher(teacher, batch)
        run_student(student, recorder)
        distances = distance(learned.outputs, recorder.outputs, batch)
        loss = torch.stack([OUTPUTS.get(name, SKY_WEIGHT) * one for name, one in distances.items()]).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_([*fine, *coarse], 1.0)
        optimizer.step()
        if step % 20 == 0:
            progress.set_postfix_str(" ".join(f"{float(one):.3f}" for one in distances.values()))
        if (step + 1) % SAVE_EVERY == 0 or step + 1 == arguments.steps:
            with atomic_path(state) as temporary:
                torch.save((step + 1, student.state_dict(), optimizer.state_dict()), temporary)
            save_network(student, arguments.out, {"start": f"distilled from {arguments.teacher.name}"})


if __name__ == "__main__":
    main()
