"""A compact network with fewer channels at 1/2 and 1/4 that computes the same as another one.

    python scripts/distill.py --data FRAMES --teacher teacher.safetensors --channels 16 48 -o student.safetensors

Layers that work at 1/2 and 1/4 are new; all others are those of the teacher. The new layers get what the teacher's
got, and learn the teacher's outputs by regression, on the images and simulated sensors of the preset: no ground truth
but for the sky, no gradient through the solver, so that a step is cheap. Resumes from the file beside --out.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader
from tqdm import tqdm

from omnidc.io.files import atomic_path
from omnidc.network.checkpoint import load_network, save_network
from omnidc.network.compact import LOCAL_CHANNELS, CompactNetwork
from omnidc.network.prefill import upsample2x
from omnidc.training.batch import Batch
from omnidc.training.config import from_tables, read_preset
from omnidc.training.data import open_sources
from omnidc.training.samples import Request, Samples

SIZES = ((192, 256), (224, 288), (256, 320), (288, 384))
BATCH = 4
ITERATIONS = 8  # of the teacher's solver
RATE, FINAL_RATE = 1e-3, 1e-5
SAVE_EVERY = 200  # steps

# What the new layers must give, and how much it counts.
OUTPUTS = {
    "trunk.down8": 5.0,
    "gradient_heads.0": 2.0,
    "gradient_heads.1": 2.0,
    "half_head": 1.0,
    "upsample2": 1.0,
    "full_head": 1.0,
}
SKY, SKY_WEIGHT = 1, 1.0  # the channel of half_head that learns the rendered masks instead
INPUTS = ("trunk.fuse2", "trunk.fuse4", "trunk.lateral4", "refine2.0")


class Recorder:
    """The inputs and outputs of some layers of the teacher in its last forward pass."""

    def __init__(self, network: nn.Module) -> None:
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        for name in {*INPUTS, *OUTPUTS}:
            network.get_submodule(name).register_forward_hook(self._hook(name))

    def _hook(self, name: str):  # type: ignore[no-untyped-def]
        def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            self.inputs[name], self.outputs[name] = inputs[0], output

        return keep


def new_outputs(student: CompactNetwork, teacher: Recorder) -> dict[str, Tensor]:
    """Outputs of the student's layers at 1/2 and 1/4; everything else is the teacher's."""
    trunk = student.trunk
    x2 = trunk.fuse2(teacher.inputs["trunk.fuse2"])
    x4 = trunk.block4(trunk.down4(x2) + trunk.fuse4(teacher.inputs["trunk.fuse4"]))
    results = {"trunk.down8": trunk.down8(x4)}
    x4 = trunk.up4(x4 + upsample2x(trunk.lateral4(teacher.inputs["trunk.lateral4"])))
    x2 = trunk.up2(x2 + upsample2x(trunk.lateral2(x4)))
    results["gradient_heads.0"], results["gradient_heads.1"] = (
        student.gradient_heads[0](x2),
        student.gradient_heads[1](x4),
    )
    local = teacher.inputs["refine2.0"][:, -LOCAL_CHANNELS:]
    x2 = student.refine2(torch.cat([F.relu(x2), local], dim=1))
    for name in ("half_head", "upsample2", "full_head"):
        results[name] = student.get_submodule(name)(x2)
    return results


def distance(results: dict[str, Tensor], wanted: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
    """Mean absolute difference of each output, in standard deviations of its channels; cross entropy of the sky."""
    distances = {}
    for name, result in results.items():
        target = wanted[name]
        deviation = target.std(dim=(0, 2, 3), keepdim=True).clamp_min(1e-2)
        apart = ((result - target) / deviation).abs()
        if name.startswith("gradient_heads"):  # of log depth: nearly 0 but at depth edges, which an L1 loss would miss
            apart = torch.cat([apart[:, :2] + apart[:, :2].square(), apart[:, 2:]], dim=1)
        if name == "half_head":
            apart = torch.cat([apart[:, :SKY], apart[:, SKY + 1 :]], dim=1)
        distances[name] = apart.mean()
    sky, known = F.avg_pool2d(batch.sky.float(), 2), F.avg_pool2d((batch.sky | (batch.gt_depth > 0)).float(), 2)
    logit = results["half_head"][:, SKY : SKY + 1]
    entropy = F.binary_cross_entropy_with_logits(logit, sky, reduction="none")
    distances["sky"] = (known * entropy).sum() / known.sum().clamp_min(1)
    return distances


# Of each new layer: whose channels it gives and takes. Channels of one name are the same in all layers.
FLOW = {
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


def make_student(teacher: CompactNetwork, channels: tuple[int, int], batch: Batch) -> CompactNetwork:
    """A network with other channels at 1/2 and 1/4 that starts with the teacher's most important ones.

    A channel is as important as its deviation times the weights of the layers that take it.
    """
    student = CompactNetwork(replace(teacher.config, channels=(*channels, *teacher.config.channels[2:])))
    deviation: dict[str, Tensor] = {}

    def observe(name: str):  # type: ignore[no-untyped-def]
        def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            deviation[name] = inputs[0].std(dim=(0, 2, 3))

        return keep

    hooks = [teacher.get_submodule(name).register_forward_hook(observe(name)) for name in FLOW]
    with torch.no_grad():
        teacher(batch.image.float() / 255, batch.sparse)
    for hook in hooks:
        hook.remove()
    importance: dict[str, Tensor] = {}
    size: dict[str, int] = {}
    for name, (gives, takes) in FLOW.items():
        layer, mine = teacher.get_submodule(name), student.get_submodule(name)
        assert isinstance(layer, nn.Conv2d)
        assert isinstance(mine, nn.Conv2d)
        if gives:
            size[gives] = mine.out_channels
        if takes:
            count = teacher.get_submodule(next(n for n, f in FLOW.items() if f[0] == takes)).out_channels  # type: ignore[union-attr]
            weight = layer.weight.detach().square().sum(dim=(0, 2, 3)).sqrt()[:count] * deviation[name][:count]
            importance[takes] = importance.get(takes, torch.zeros_like(weight)) + weight / weight.sum()
    kept = {one: weight.topk(size[one]).indices.sort().values for one, weight in importance.items()}
    own, given = student.state_dict(), teacher.state_dict()
    tensors = {name: given[name] for name in own if given[name].shape == own[name].shape}
    for name, (gives, takes) in FLOW.items():
        weight, bias = given[f"{name}.weight"], given[f"{name}.bias"]
        if gives:
            weight, bias = weight[kept[gives]], bias[kept[gives]]
        if takes:
            others = torch.arange(len(importance[takes]), weight.shape[1])
            weight = weight[:, torch.cat([kept[takes], others])]
        tensors[f"{name}.weight"], tensors[f"{name}.bias"] = weight, bias
    for block, stream in (("block4", "x4"), ("up4", "x4"), ("up2", "x2")):
        tensors[f"trunk.{block}.gain"] = given[f"trunk.{block}.gain"][kept[stream]]
    student.load_state_dict(tensors)
    return student


def is_new(name: str) -> bool:
    layers = ("fuse2", "down4", "fuse4", "block4", "down8", "lateral4", "up4", "lateral2", "up2")
    heads = ("gradient_heads.0.", "gradient_heads.1.", "refine2.", "half_head.", "upsample2.", "full_head.")
    return name.startswith((*(f"trunk.{layer}." for layer in layers), *heads))


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
    parser.add_argument("--channels", type=int, nargs=2, action="append", required=True, help="at 1/2 and 1/4")
    parser.add_argument("-o", "--out", type=Path, action="append", required=True, help="one for each --channels")
    parser.add_argument("--steps", type=int, default=2500)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    teacher = load_network(arguments.teacher)
    if not isinstance(teacher, CompactNetwork):
        raise SystemExit(f"{arguments.teacher} is no compact network.")
    iterations = teacher.config.iterations
    example = next(batches(arguments.data, 0, 0))
    students = [make_student(teacher, tuple(one), example) for one in arguments.channels]
    teacher.config = replace(teacher.config, iterations=ITERATIONS)
    parameters = [[p for name, p in one.named_parameters() if is_new(name)] for one in students]
    optimizers = [torch.optim.Adam(one, lr=RATE) for one in parameters]
    state = arguments.out[0].with_suffix(".pt")
    first = 0
    if state.exists():
        first, weights, moments = torch.load(state)
        for student, optimizer, weight, moment in zip(students, optimizers, weights, moments):
            student.load_state_dict(weight)
            optimizer.load_state_dict(moment)
    recorder = Recorder(teacher)
    stream = batches(arguments.data, 1, first)
    progress = tqdm(range(first, arguments.steps), initial=first, total=arguments.steps, unit="step")
    for step in progress:
        rate = float(FINAL_RATE + (RATE - FINAL_RATE) * (1 + np.cos(np.pi * step / arguments.steps)) / 2)
        batch = next(stream)
        with torch.no_grad():
            teacher(batch.image.float() / 255, batch.sparse)
        shown = []
        for student, optimizer, mine in zip(students, optimizers, parameters):
            distances = distance(new_outputs(student, recorder), recorder.outputs, batch)
            loss = torch.stack([OUTPUTS.get(name, SKY_WEIGHT) * one for name, one in distances.items()]).sum()
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(mine, 1.0)
            optimizer.step()
            shown.append(" ".join(f"{float(one):.3f}" for one in distances.values()))
        if step % 20 == 0:
            progress.set_postfix_str(" | ".join(shown))
        if (step + 1) % SAVE_EVERY == 0 or step + 1 == arguments.steps:
            with atomic_path(state) as temporary:
                torch.save(
                    (step + 1, [one.state_dict() for one in students], [o.state_dict() for o in optimizers]), temporary
                )
            for student, out in zip(students, arguments.out):
                student.config = replace(student.config, iterations=iterations)
                save_network(student, out, {"start": f"distilled from {arguments.teacher.name}"})


if __name__ == "__main__":
    main()
