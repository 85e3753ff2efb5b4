"""Use the integrator alone: depth from gradients and three measurements, with gradients of its own result.

python examples/integrate_gradients.py
"""

import torch

from omnidc.integrate import integrate


def main() -> None:
    height, width = 120, 160
    slope = torch.zeros(1, 2, height, width)  # [B, 2, h, w]: backward differences of log depth in x and y
    slope[:, 0, :, 1:] = 0.005
    weights = torch.ones_like(slope)
    weights[:, 0, :, 80] = 1e-3  # a depth edge: the gradient across it counts for little
    log_depth, mask = torch.zeros(1, 1, height, width), torch.zeros(1, 1, height, width)
    for row, column, depth in ((60, 10, 1.0), (20, 150, 4.0), (100, 150, 4.0)):
        log_depth[..., row, column], mask[..., row, column] = torch.tensor(depth).log(), 1
    slope.requires_grad_()
    x, info = integrate([slope], log_depth, mask, weights=[weights])
    print(f"{int(info.iterations)} iterations; depth left and right of the edge:", end=" ")
    print(", ".join(f"{x[0, 0, 60, column].exp().item():.2f}" for column in (79, 80)))
    x[0, 0, 60, 80].backward()  # gradients pass through the solve
    print(f"largest derivative by a gradient: {float(slope.grad.abs().max()):.3f}")


if __name__ == "__main__":
    main()
