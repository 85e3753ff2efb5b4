// A small point-cloud viewer: WebGL where there is one, a plain canvas otherwise. Camera axes: x right, y down, z forward.

const VERTEX = `
attribute vec3 position; attribute vec3 color;
uniform mat3 turn; uniform vec3 center; uniform vec3 shift; uniform vec2 focal; uniform vec2 range; uniform float spacing;
varying vec3 shade;
void main() {
  vec3 q = turn * (position - center) + shift;
  float a = (range.y + range.x) / (range.y - range.x), b = -2.0 * range.x * range.y / (range.y - range.x);
  gl_Position = vec4(focal.x * q.x, -focal.y * q.y, a * q.z + b, q.z);
  gl_PointSize = clamp(spacing * position.z / max(q.z, 1e-6), 1.5, 24.0);
  shade = color;
}`;
const FRAGMENT = `precision mediump float; varying vec3 shade; void main() { gl_FragColor = vec4(shade, 1.0); }`;

const OPENING = { yaw: 0.3, pitch: 0.12 }; // radians

export class Cloud {
  constructor(canvas) {
    this.canvas = canvas;
    this.count = 0;
    this.spinning = false;
    this.gl = canvas.getContext("webgl", { antialias: true, preserveDrawingBuffer: true });
    if (this.gl) this.prepare();
    else this.plain = canvas.getContext("2d");
    this.home();
    this.listen();
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  prepare() {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.enable(gl.DEPTH_TEST);
    this.at = (name) => gl.getUniformLocation(program, name);
    this.buffers = ["position", "color"].map((name) => [gl.createBuffer(), gl.getAttribLocation(program, name)]);
  }

  /** view: what the server packed; colors: Uint8 [rows × columns × 3]. */
  show(view, colors) {
    const { columns, rows, step, depth, surface, camera } = view;
    const [fx, fy, cx, cy] = camera;
    const positions = new Float32Array(3 * columns * rows), shades = new Uint8Array(3 * columns * rows);
    let n = 0;
    for (let v = 0, i = 0; v < rows; v++)
      for (let u = 0; u < columns; u++, i++) {
        if (!surface[i]) continue;
        const z = depth[i];
        positions.set([((u * step - cx) / fx) * z, ((v * step - cy) / fy) * z, z], 3 * n);
        shades.set(colors.subarray(3 * i, 3 * i + 3), 3 * n);
        n++;
      }
    this.positions = positions.subarray(0, 3 * n);
    this.shades = shades.subarray(0, 3 * n);
    this.count = n;
    const sorted = Float32Array.from({ length: Math.min(n, 20000) }, (_, k) => positions[3 * Math.floor((k * n) / Math.min(n, 20000)) + 2]).sort();
    const middle = sorted[sorted.length >> 1] || 1;
    this.center = [((columns * step / 2 - cx) / fx) * middle, ((rows * step / 2 - cy) / fy) * middle, middle];
    this.far = 20 * (sorted[Math.floor(0.99 * sorted.length)] || 1);
    this.lens = [(2 * fx) / (columns * step), (2 * fy) / (rows * step)];
    this.pitchOf = (step / fx) * 1.6;
    if (this.gl) {
      const gl = this.gl;
      for (const [[buffer, location], data, type, normal] of [[this.buffers[0], this.positions, gl.FLOAT, false], [this.buffers[1], this.shades, gl.UNSIGNED_BYTE, true]]) {
        gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
        gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
        gl.enableVertexAttribArray(location);
        gl.vertexAttribPointer(location, 3, type, normal, 0, 0);
      }
    }
    this.draw();
  }

  /** From the camera's own place a cloud looks like the photograph; slightly turned it shows its depth. */
  home() {
    this.reset(OPENING.yaw, OPENING.pitch);
  }

  /** From the camera's own place. */
  front() {
    this.reset(0, 0);
  }

  reset(yaw, pitch) {
    Object.assign(this, { yaw, pitch, zoom: 1, panX: 0, panY: 0 });
    this.draw();
  }

  turn(yaw, pitch) {
    this.yaw += yaw;
    this.pitch = Math.max(-1.5, Math.min(1.5, this.pitch + pitch));
    this.draw();
  }

  scale(factor) {
    this.zoom = Math.max(0.05, Math.min(8, this.zoom * factor));
    this.draw();
  }

  listen() {
    const { canvas } = this, held = new Map();
    let gap = 0;
    canvas.addEventListener("pointerdown", (e) => {
      canvas.setPointerCapture(e.pointerId);
      held.set(e.pointerId, e);
      gap = 0;
    });
    canvas.addEventListener("pointermove", (e) => {
      const before = held.get(e.pointerId);
      if (!before) return;
      held.set(e.pointerId, e);
      const dx = (e.clientX - before.clientX) / canvas.clientWidth, dy = (e.clientY - before.clientY) / canvas.clientWidth;
      if (held.size === 2) {
        const [a, b] = [...held.values()], now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        if (gap) this.scale(gap / now);
        gap = now;
      } else if (e.buttons === 2 || e.shiftKey) {
        this.panX += 2 * dx * this.zoom;
        this.panY += 2 * dy * this.zoom;
        this.draw();
      } else this.turn(-4 * dx, 4 * dy);
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (e) => held.delete(e.pointerId));
    canvas.addEventListener("contextmenu", (e) => e.preventDefault());
    canvas.addEventListener("wheel", (e) => { e.preventDefault(); this.scale(Math.exp(e.deltaY * 0.001)); }, { passive: false });
    canvas.addEventListener("keydown", (e) => {
      const act = {
        ArrowLeft: () => this.turn(0.1, 0), ArrowRight: () => this.turn(-0.1, 0), ArrowUp: () => this.turn(0, -0.1), ArrowDown: () => this.turn(0, 0.1),
        "+": () => this.scale(0.9), "=": () => this.scale(0.9), "-": () => this.scale(1.1), Home: () => this.home(),
      }[e.key];
      if (act) { e.preventDefault(); act(); }
    });
  }

  spin(on) {
    this.spinning = on;
    const swing = (time) => {
      if (!this.spinning) return;
      if (this.canvas.offsetParent) {
        this.yaw = 0.5 * Math.sin(time / 1500);
        this.pitch = 0.15 * Math.sin(time / 2300);
        this.draw();
      }
      requestAnimationFrame(swing);
    };
    if (on) requestAnimationFrame(swing);
  }

  /** Rows of the rotation world → view: first around the vertical, then around the horizontal axis. */
  rotation() {
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    return [cy, 0, -sy, sp * sy, cp, sp * cy, cp * sy, -sp, cp * cy];
  }

  draw() {
    if (!this.count || !this.canvas.clientWidth) return;
    const { canvas } = this, ratio = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    // The photograph's whole view fits the canvas, whatever its shape.
    const aspect = canvas.width / canvas.height, photo = this.lens[1] / this.lens[0];
    const focal = aspect > photo ? [this.lens[1] / aspect, this.lens[1]] : [this.lens[0], this.lens[0] * aspect];
    const distance = this.center[2] * this.zoom;
    const shift = [(this.panX * distance) / 2, (this.panY * distance) / 2, distance];
    const turn = this.rotation(), spacing = (this.pitchOf * focal[0] * canvas.width) / 2;
    if (this.gl) this.drawFast(focal, shift, turn, spacing);
    else this.drawPlain(focal, shift, turn);
  }

  drawFast(focal, shift, turn, spacing) {
    const { gl, canvas } = this;
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0.07, 0.08, 0.09, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    // WebGL wants columns, `turn` holds rows
    gl.uniformMatrix3fv(this.at("turn"), false, [0, 3, 6, 1, 4, 7, 2, 5, 8].map((k) => turn[k]));
    gl.uniform3fv(this.at("center"), this.center);
    gl.uniform3fv(this.at("shift"), shift);
    gl.uniform2fv(this.at("focal"), focal);
    gl.uniform2fv(this.at("range"), [this.center[2] * 0.01, this.far]);
    gl.uniform1f(this.at("spacing"), spacing);
    gl.drawArrays(gl.POINTS, 0, this.count);
  }

  drawPlain(focal, shift, turn) {
    const { canvas, positions, shades, center } = this, W = canvas.width, H = canvas.height;
    const picture = new ImageData(W, H), pixels = new Uint32Array(picture.data.buffer), nearest = new Float32Array(W * H).fill(Infinity);
    pixels.fill(0xff171412);
    for (let i = 0; i < positions.length; i += 3) {
      const [x, y, z] = [positions[i] - center[0], positions[i + 1] - center[1], positions[i + 2] - center[2]];
      const depth = turn[6] * x + turn[7] * y + turn[8] * z + shift[2];
      if (depth <= 0) continue;
      const px = Math.round((((turn[0] * x + turn[1] * y + turn[2] * z + shift[0]) * focal[0]) / depth + 1) * 0.5 * W);
      const py = Math.round((((turn[3] * x + turn[4] * y + turn[5] * z + shift[1]) * focal[1]) / depth + 1) * 0.5 * H);
      const shade = 0xff000000 | (shades[i + 2] << 16) | (shades[i + 1] << 8) | shades[i];
      for (let v = py; v < py + 2; v++)
        for (let u = px; u < px + 2; u++) {
          const k = v * W + u;
          if (u >= 0 && u < W && v >= 0 && v < H && depth < nearest[k]) { nearest[k] = depth; pixels[k] = shade; }
        }
    }
    this.plain.putImageData(picture, 0, 0);
  }
}
