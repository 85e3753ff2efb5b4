"""Numba kernels of the CPU rasterizer: projection, tile lists, compositing, and their adjoints.

The inner loops run over the pixels of a row of (ellipse of a Gaussian) ∩ tile, so that LLVM vectorizes them; the
ellipse encloses α ≥ `MIN_ALPHA` and shrinks with opacity. The backward pass runs front to back like the forward pass:
the rest is the total minus what came so far, so nothing is stored per pixel and Gaussian. Gradients are written once
for each (tile, Gaussian) pair and then summed, so that the result is the same for any number of threads.

Kernels with `first` and `step` compute the items first, first + step, …; each releases the GIL.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from omnidc.splatting.rasterizer import BLUR, JACOBIAN_LIMIT, MAX_ALPHA, MIN_ALPHA

TILE_W, TILE_H = 32, 16  # pixels; wide rows vectorize better
STOP = 2e-5  # a tile ends when every pixel transmits less than this
CHECK_EVERY = 32  # Gaussians between two tests of `STOP`

# Columns of a projected Gaussian: center u v, depth z, conic a b c (inverse covariance), half box x y, square of the
# Mahalanobis distance at which α = `MIN_ALPHA`, visible 0/1.
U, V, Z, CA, CB, CC, RX, RY, REACH, VISIBLE = range(10)
COLUMNS = 10
# Columns of the gradient of a projected Gaussian: the first six as above, opacity, red, green, blue.
G_OPACITY, G_RED = 6, 7

jit: Any = numba.njit(fastmath=True, cache=True, error_model="numpy", nogil=True)


@jit
def _constants(f):
    """Return literals in the type of the data: a float64 literal would turn each float32 loop into float64."""
    taylor = (f(1.0 / 16.0), f(1), f(1 / 2), f(1 / 6), f(1 / 24), f(1 / 120), f(1 / 720))
    return taylor, f(0), f(1), f(0.5), f(-6), f(MIN_ALPHA), f(MAX_ALPHA)


@jit
def _exp(x, taylor):
    """Return e^x for −6 ≤ x ≤ 0 to 3e-6 relative, as the 16th power of a polynomial: nothing stops vectorization."""
    y = x * taylor[0]
    p = taylor[1] + y * (
        taylor[1] + y * (taylor[2] + y * (taylor[3] + y * (taylor[4] + y * (taylor[5] + y * taylor[6]))))
    )
    p2 = p * p
    p4 = p2 * p2
    p8 = p4 * p4
    return p8 * p8


@jit
def _rotation(w, x, y, z):
    """Return the rows of the rotation matrix of a unit quaternion."""
    return (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


@jit
def _scaled_row(view, r, m, s):
    """Return row r of R_view M diag(s)."""
    a, b, c = view[r, 0], view[r, 1], view[r, 2]
    return (
        (a * m[0][0] + b * m[1][0] + c * m[2][0]) * s[0],
        (a * m[0][1] + b * m[1][1] + c * m[2][1]) * s[1],
        (a * m[0][2] + b * m[1][2] + c * m[2][2]) * s[2],
    )


@jit
def _axes(scales, quats, view, i):
    """Return rows of N = R_view R_quat diag(s), for the camera-frame covariance N Nᵀ; unit quaternion; 1 / its norm."""
    w, x, y, z = quats[i, 0], quats[i, 1], quats[i, 2], quats[i, 3]
    r = 1 / math.sqrt(w * w + x * x + y * y + z * z)
    q = (w * r, x * r, y * r, z * r)
    m, s = _rotation(q[0], q[1], q[2], q[3]), (scales[i, 0], scales[i, 1], scales[i, 2])
    return _scaled_row(view, 0, m, s), _scaled_row(view, 1, m, s), _scaled_row(view, 2, m, s), q, r


@jit
def _to_camera(means, view, i):
    a, b, c = means[i, 0], means[i, 1], means[i, 2]
    x = view[0, 0] * a + view[0, 1] * b + view[0, 2] * c + view[0, 3]
    y = view[1, 0] * a + view[1, 1] * b + view[1, 2] * c + view[1, 3]
    return x, y, view[2, 0] * a + view[2, 1] * b + view[2, 2] * c + view[2, 3]


@jit
def project(means, scales, quats, opacities, view, camera, near, first, step, out):
    """Fill out [N, 10] (zero before the call) with Σ' = J N (J N)ᵀ + BLUR · I and what follows from it."""
    fx, fy, cx, cy, width, height = camera
    limit_x, limit_y = JACOBIAN_LIMIT * 0.5 * width / fx, JACOBIAN_LIMIT * 0.5 * height / fy
    for i in range(first, means.shape[0], step):
        x, y, z = _to_camera(means, view, i)
        if z <= near or opacities[i] < MIN_ALPHA:
            continue
        n0, n1, n2, _, _ = _axes(scales, quats, view, i)
        tx, ty = min(limit_x, max(-limit_x, x / z)), min(limit_y, max(-limit_y, y / z))
        a = c = BLUR
        b = 0.0
        for k in range(3):
            p0 = fx / z * (n0[k] - tx * n2[k])
            p1 = fy / z * (n1[k] - ty * n2[k])
            a, b, c = a + p0 * p0, b + p0 * p1, c + p1 * p1
        det = a * c - b * b
        if not det > 0:
            continue
        u, v = fx * x / z + cx, fy * y / z + cy
        reach = 2 * math.log(opacities[i] / MIN_ALPHA)
        rx, ry = math.sqrt(reach * a), math.sqrt(reach * c)
        if u + rx < 0 or v + ry < 0 or u - rx > width - 1 or v - ry > height - 1:
            continue
        out[i, U], out[i, V], out[i, Z] = u, v, z
        out[i, CA], out[i, CB], out[i, CC] = c / det, -b / det, a / det
        out[i, RX], out[i, RY], out[i, REACH], out[i, VISIBLE] = rx, ry, reach, 1


@jit
def _tile_range(flat, i, nx, ny, tw, th):
    """Return the tiles of a visible Gaussian's box, ends included; clamped before `int`, which can overflow."""
    x0, x1 = int(max(0.0, (flat[i, U] - flat[i, RX]) / tw)), int(min(nx - 1.0, (flat[i, U] + flat[i, RX]) / tw))
    y0, y1 = int(max(0.0, (flat[i, V] - flat[i, RY]) / th)), int(min(ny - 1.0, (flat[i, V] + flat[i, RY]) / th))
    return x0, x1, y0, y1


@jit
def tile_lists(flat, order, nx, ny, tw, th):
    """Return starts [tiles + 1] and ids [pairs]: the Gaussians of each tile, in the `order` given (near to far)."""
    starts = np.zeros(nx * ny + 1, np.int64)
    for i in order:
        x0, x1, y0, y1 = _tile_range(flat, i, nx, ny, tw, th)
        for ty in range(y0, y1 + 1):
            for tx in range(x0, x1 + 1):
                starts[ty * nx + tx + 1] += 1
    for t in range(nx * ny):
        starts[t + 1] += starts[t]
    fill, ids = starts.copy(), np.empty(starts[-1], np.int32)
    for i in order:
        x0, x1, y0, y1 = _tile_range(flat, i, nx, ny, tw, th)
        for ty in range(y0, y1 + 1):
            for tx in range(x0, x1 + 1):
                t = ty * nx + tx
                ids[fill[t]] = i
                fill[t] += 1
    return starts, ids


@jit
def _box(flat, i, left, top, w, h):
    """Return the pixels of a Gaussian's box within a tile: x0, x1, y0, y1 relative to the tile, ends excluded."""
    x0 = math.ceil(max(float(left), flat[i, U] - flat[i, RX])) - left
    x1 = int(min(left + w - 1.0, flat[i, U] + flat[i, RX])) + 1 - left
    y0 = math.ceil(max(float(top), flat[i, V] - flat[i, RY])) - top
    y1 = int(min(top + h - 1.0, flat[i, V] + flat[i, RY])) + 1 - top
    return x0, x1, y0, y1


@jit
def _ellipse(flat, i):
    """Return du/dv of the middles of its rows, its half width at the center, and 1 / (half height)²."""
    return -flat[i, CB] / flat[i, CA], math.sqrt(flat[i, REACH] / flat[i, CA]), 1 / (flat[i, RY] * flat[i, RY])


@jit
def _row(ellipse, u, dy, x0, x1):
    """Return the pixels of a row, dy from the center, that an ellipse covers, within x0 … x1; ends excluded."""
    tilt, half, inverse = ellipse
    middle, half = u + tilt * dy, half * math.sqrt(max(1 - dy * dy * inverse, 0))
    # One pixel more on each side for rounding; clamped before `int`, which can overflow
    return int(max(float(x0), middle - half)), int(min(float(x1), middle + half + 2))


@jit
def _is_opaque(light, w, h):
    for y in range(h):
        for x in range(w):
            if light[y, x] >= STOP:
                return False
    return True


@jit
def composite(flat, opacities, colors, starts, ids, tw, th, first, step, out, done):
    """Fill out [5, H, W] (red, green, blue, depth, alpha), and done [tiles] with the Gaussians composited."""
    f = flat.dtype.type
    taylor, zero, one, half, lowest, min_alpha, max_alpha = _constants(f)
    height, width = out.shape[1], out.shape[2]
    nx = (width + tw - 1) // tw
    ramp = np.arange(max(tw, th)).astype(flat.dtype)
    light = np.empty((th, tw), flat.dtype)  # transmittance
    sums = np.empty((4, th, tw), flat.dtype)
    for t in range(first, starts.shape[0] - 1, step):
        left, top = (t % nx) * tw, (t // nx) * th
        w, h = min(tw, width - left), min(th, height - top)
        light[:] = one
        sums[:] = zero
        last = starts[t + 1] - starts[t]
        for j in range(starts[t], starts[t + 1]):
            i = ids[j]
            x0, x1, y0, y1 = _box(flat, i, left, top, w, h)
            u, v = f(flat[i, U] - left), f(flat[i, V] - top)
            a, b, c, o = -half * flat[i, CA], -flat[i, CB], -half * flat[i, CC], opacities[i]
            c0, c1, c2, c3 = colors[i, 0], colors[i, 1], colors[i, 2], flat[i, Z]
            ellipse = _ellipse(flat, i)
            for y in range(y0, y1):
                dy = ramp[y] - v
                begin, end = _row(ellipse, u, dy, x0, x1)
                for x in range(begin, end):
                    dx = ramp[x] - u
                    alpha = o * _exp(max(lowest, a * dx * dx + b * dx * dy + c * dy * dy), taylor)
                    alpha = min(max_alpha, alpha) if alpha >= min_alpha else zero
                    weight = alpha * light[y, x]
                    light[y, x] -= weight
                    sums[0, y, x] += weight * c0
                    sums[1, y, x] += weight * c1
                    sums[2, y, x] += weight * c2
                    sums[3, y, x] += weight * c3
            if (j - starts[t]) % CHECK_EVERY == CHECK_EVERY - 1 and _is_opaque(light, w, h):
                last = j + 1 - starts[t]
                break
        done[t] = last
        for y in range(h):
            for x in range(w):
                for n in range(4):
                    out[n, top + y, left + x] = sums[n, y, x]
                out[4, top + y, left + x] = one - light[y, x]


@jit
def composite_backward(flat, opacities, colors, starts, ids, done, out, grad_out, tw, th, first, step, grads):
    """Fill grads [pairs, 10]: the gradient with respect to each tile's projected Gaussians."""
    f = flat.dtype.type
    taylor, zero, one, half, lowest, min_alpha, max_alpha = _constants(f)
    height, width = out.shape[1], out.shape[2]
    nx = (width + tw - 1) // tw
    ramp = np.arange(max(tw, th)).astype(flat.dtype)
    light = np.empty((th, tw), flat.dtype)
    behind = np.empty((th, tw), flat.dtype)  # Σ over channels of gradient · (contribution of what is still to come)
    g = np.empty((5, th, tw), flat.dtype)
    for t in range(first, starts.shape[0] - 1, step):
        left, top = (t % nx) * tw, (t // nx) * th
        w, h = min(tw, width - left), min(th, height - top)
        light[:] = one
        behind[:] = zero
        for y in range(h):
            for x in range(w):
                for n in range(5):
                    g[n, y, x] = grad_out[n, top + y, left + x]
                    behind[y, x] += g[n, y, x] * out[n, top + y, left + x]
        for j in range(starts[t], starts[t] + done[t]):
            i = ids[j]
            x0, x1, y0, y1 = _box(flat, i, left, top, w, h)
            u, v = f(flat[i, U] - left), f(flat[i, V] - top)
            ca, cb, cc = flat[i, CA], flat[i, CB], flat[i, CC]
            a, b, c, o = -half * ca, -cb, -half * cc, opacities[i]
            c0, c1, c2, c3 = colors[i, 0], colors[i, 1], colors[i, 2], flat[i, Z]
            r0 = r1 = r2 = r3 = q = qx = qy = qxx = qxy = qyy = zero
            ellipse = _ellipse(flat, i)
            for y in range(y0, y1):
                dy = ramp[y] - v
                begin, end = _row(ellipse, u, dy, x0, x1)
                s = sx = sxx = zero
                for x in range(begin, end):
                    dx = ramp[x] - u
                    raw = o * _exp(max(lowest, a * dx * dx + b * dx * dy + c * dy * dy), taylor)
                    alpha = min(max_alpha, raw) if raw >= min_alpha else zero
                    weight = alpha * light[y, x]
                    g0, g1, g2, g3 = g[0, y, x], g[1, y, x], g[2, y, x], g[3, y, x]
                    value = g0 * c0 + g1 * c1 + g2 * c2 + g3 * c3 + g[4, y, x]
                    rest = behind[y, x] - weight * value
                    behind[y, x] = rest
                    # ∂L/∂exponent = α ∂L/∂α; zero where α is clamped
                    slope = alpha * (light[y, x] * value - rest / (one - alpha))
                    slope = slope if raw < max_alpha else zero
                    light[y, x] -= weight
                    r0, r1, r2, r3 = r0 + weight * g0, r1 + weight * g1, r2 + weight * g2, r3 + weight * g3
                    s, sx, sxx = s + slope, sx + slope * dx, sxx + slope * dx * dx
                q, qx, qy = q + s, qx + sx, qy + s * dy
                qxx, qxy, qyy = qxx + sxx, qxy + sx * dy, qyy + s * dy * dy
            grads[j, U], grads[j, V], grads[j, Z] = ca * qx + cb * qy, cb * qx + cc * qy, r3
            grads[j, CA], grads[j, CB], grads[j, CC] = -half * qxx, -qxy, -half * qyy
            grads[j, G_OPACITY] = q / o
            grads[j, G_RED], grads[j, G_RED + 1], grads[j, G_RED + 2] = r0, r1, r2


@jit
def sum_pairs(grads, starts, ids, done, total):
    """Add the pairs' gradients [pairs, 10] to their Gaussians' [N, 10]."""
    for t in range(starts.shape[0] - 1):
        for j in range(starts[t], starts[t] + done[t]):
            for m in range(grads.shape[1]):
                total[ids[j], m] += grads[j, m]


@jit
def project_backward(means, scales, quats, view, camera, flat, grads, first, step, grad_means, grad_scales, grad_quats):
    """Fill the gradients of means [N, 3], scales [N, 3] and quats [N, 4] from those of the projected Gaussians."""
    fx, fy, _, _, width, height = camera
    limit_x, limit_y = JACOBIAN_LIMIT * 0.5 * width / fx, JACOBIAN_LIMIT * 0.5 * height / fy
    d = np.zeros((3, 3))  # ∂L/∂R_quat
    for i in range(first, means.shape[0], step):
        if flat[i, VISIBLE] == 0:
            continue
        x, y, z = _to_camera(means, view, i)
        n0, n1, n2, (w, qx, qy, qz), r = _axes(scales, quats, view, i)
        tx, ty = min(limit_x, max(-limit_x, x / z)), min(limit_y, max(-limit_y, y / z))
        ca, cb, cc = flat[i, CA], flat[i, CB], flat[i, CC]
        ga, gb, gc = grads[i, CA], grads[i, CB] * 0.5, grads[i, CC]
        # Q = Σ'⁻¹, so dΣ' = −Q dQ Q; gb is the off-diagonal entry of a symmetric matrix.
        ta, tb, tc, td = ca * ga + cb * gb, ca * gb + cb * gc, cb * ga + cc * gb, cb * gb + cc * gc
        sa, sb, sc = -(ta * ca + tb * cb), -2 * (ta * cb + tb * cc), -(tc * cb + td * cc)
        gx, gy = grads[i, U] * fx / z, grads[i, V] * fy / z
        gz = grads[i, Z] - (grads[i, U] * fx * x + grads[i, V] * fy * y) / (z * z)
        gtx = gty = 0.0
        rows = _rotation(w, qx, qy, qz)
        for k in range(3):
            p0, p1 = fx / z * (n0[k] - tx * n2[k]), fy / z * (n1[k] - ty * n2[k])
            h0, h1 = 2 * sa * p0 + sb * p1, 2 * sc * p1 + sb * p0
            gz -= (h0 * p0 + h1 * p1) / z
            h0, h1 = h0 * fx / z, h1 * fy / z
            h2 = -(tx * h0 + ty * h1)
            gtx -= h0 * n2[k]
            gty -= h1 * n2[k]
            for m in range(3):
                row = view[0, m] * h0 + view[1, m] * h1 + view[2, m] * h2
                grad_scales[i, k] += row * rows[m][k]
                d[m, k] = row * scales[i, k]
        if abs(x / z) < limit_x:
            gx += gtx / z
            gz -= gtx * x / (z * z)
        if abs(y / z) < limit_y:
            gy += gty / z
            gz -= gty * y / (z * z)
        for m in range(3):
            grad_means[i, m] = view[0, m] * gx + view[1, m] * gy + view[2, m] * gz
        gw = 2 * (qx * (d[2, 1] - d[1, 2]) + qy * (d[0, 2] - d[2, 0]) + qz * (d[1, 0] - d[0, 1]))
        g1 = 2 * (qy * (d[0, 1] + d[1, 0]) + qz * (d[0, 2] + d[2, 0]) + w * (d[2, 1] - d[1, 2]))
        g2 = 2 * (qx * (d[0, 1] + d[1, 0]) + qz * (d[1, 2] + d[2, 1]) + w * (d[0, 2] - d[2, 0]))
        g3 = 2 * (qx * (d[0, 2] + d[2, 0]) + qy * (d[1, 2] + d[2, 1]) + w * (d[1, 0] - d[0, 1]))
        g1 -= 4 * qx * (d[1, 1] + d[2, 2])
        g2 -= 4 * qy * (d[0, 0] + d[2, 2])
        g3 -= 4 * qz * (d[0, 0] + d[1, 1])
        dot = gw * w + g1 * qx + g2 * qy + g3 * qz  # the norm of the quaternion has no effect
        grad_quats[i, 0], grad_quats[i, 1] = (gw - w * dot) * r, (g1 - qx * dot) * r
        grad_quats[i, 2], grad_quats[i, 3] = (g2 - qy * dot) * r, (g3 - qz * dot) * r
