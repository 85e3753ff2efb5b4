// The length between two pixels of a depth map, in space.

/** A pixel's place in the camera's frame. at: [column, row] of the map that is shown. */
function place(view, [u, v]) {
  const [fx, fy, cx, cy] = view.camera, z = view.depth[v * view.columns + u];
  const ray = [(u * view.step - cx) / fx, (v * view.step - cy) / fy, 1];
  return { z, ray, point: ray.map((r) => r * z) };
}

/** Length |A − B| and its uncertainty, or null where one end has no depth. The errors of both depths are taken as independent. */
export function length(view, from, to) {
  const [a, b] = [place(view, from), place(view, to)];
  if (!(a.z > 0 && b.z > 0)) return null;
  const apart = a.point.map((p, i) => p - b.point[i]), value = Math.hypot(...apart);
  if (!view.uncertainty || !value) return { value, spread: null };
  const slope = (ray) => apart.reduce((sum, d, i) => sum + d * ray[i], 0) / value; // of the length by one end's depth
  const [sa, sb] = [from, to].map(([u, v]) => view.uncertainty[v * view.columns + u]);
  return { value, spread: Math.hypot(slope(a.ray) * sa, slope(b.ray) * sb) };
}

/** Draw the ends and the line between them onto a canvas of the map's size. */
export function drawLength(canvas, ends) {
  const g = canvas.getContext("2d"), size = Math.max(1, canvas.width / 320);
  const centers = ends.map(([u, v]) => [u + 0.5, v + 0.5]);
  for (const [width, color] of [[3 * size, "#000"], [1.2 * size, "#fff"]]) {
    Object.assign(g, { lineWidth: width, strokeStyle: color, lineCap: "round" });
    g.beginPath();
    centers.forEach(([x, y], k) => (k ? g.lineTo(x, y) : g.moveTo(x, y)));
    g.stroke();
    for (const [x, y] of centers) {
      g.beginPath();
      g.arc(x, y, 3.5 * size, 0, 7);
      g.stroke();
    }
  }
}
