// The page: a photograph and measurements through an exported model (src/omnidc/deploy/model_info.py has the contract).

import { readDepth, writeNpy } from "./files.js";

const element = (id) => document.getElementById(id);
const state = { image: null, file: null, clicks: [], size: null, depth: null, session: null, ort: null, model: null };

function say(text, isError = false) {
  element("status").textContent = text;
  element("status").classList.toggle("error", isError);
}

async function guarded(work) {
  try {
    await work();
  } catch (error) {
    say(error.message, true);
  }
}

async function loadModel() {
  state.model = await (await fetch("model.json")).json();
  const adapter = navigator.gpu ? await navigator.gpu.requestAdapter().catch(() => null) : null;
  state.provider = adapter ? "webgpu" : "wasm";
  state.ort = await import(`./vendor/ort.${state.provider}.bundle.min.mjs`);
  state.ort.env.wasm.wasmPaths = new URL("vendor/", location.href).href;
  state.ort.env.wasm.numThreads = globalThis.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1;
  const start = performance.now();
  const providers = adapter ? ["webgpu", "wasm"] : ["wasm"];
  state.session = await state.ort.InferenceSession.create("model.onnx", { executionProviders: providers });
  const seconds = (performance.now() - start) / 1000;
  say(`${state.model.name} is ready (${state.provider}, loaded in ${seconds.toFixed(1)} s). Choose a photograph.`);
  update();
}

// Size of the computation: the longest side that was chosen, and at most what the model was made for.
function workingSize(image) {
  const longest = Math.min(Number(element("side").value), state.model?.max_side ?? Infinity);
  const factor = Math.min(1, longest / Math.max(image.width, image.height));
  return { width: Math.max(1, Math.round(image.width * factor)), height: Math.max(1, Math.round(image.height * factor)) };
}

// Each measurement moves to the nearest pixel of the smaller grid; of several the nearest to the camera stays.
function sparseMap() {
  const { width, height } = state.size;
  const map = new Float32Array(width * height);
  const put = (x, y, depth) => {
    const at = Math.min(height - 1, Math.floor(y)) * width + Math.min(width - 1, Math.floor(x));
    map[at] = map[at] ? Math.min(map[at], depth) : depth;
  };
  if (state.file) {
    state.file.depth.forEach((depth, k) => {
      const x = k % state.file.width, y = Math.floor(k / state.file.width);
      if (depth) put(((x + 0.5) * width) / state.file.width, ((y + 0.5) * height) / state.file.height, depth);
    });
  }
  for (const click of state.clicks) put(click.x * width, click.y * height, click.depth);
  return map;
}

function drawInput() {
  const canvas = element("input"), { width, height } = state.size;
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(state.image, 0, 0, width, height);
  const pixels = context.getImageData(0, 0, width, height);
  const map = sparseMap();
  const radius = Math.max(1, Math.round(width / 200));
  context.fillStyle = "#ff2d55";
  map.forEach((depth, k) => {
    if (depth) context.fillRect((k % width) - radius / 2, Math.floor(k / width) - radius / 2, radius, radius);
  });
  return { pixels, map };
}

function update() {
  element("run").disabled = !(state.session && state.image);
  element("save").disabled = !state.depth;
  if (state.image) {
    state.size = workingSize(state.image);
    drawInput();
  }
}

// The caller pads to a multiple of size_divisor: the image repeats its border, the measurements get zeros.
function tensors({ pixels, map }) {
  const { width, height } = state.size;
  const divisor = state.model.size_divisor;
  const padded = (side) => Math.max(2 * divisor, Math.ceil(side / divisor) * divisor);
  const [columns, rows] = state.model.size ? [state.model.size[1], state.model.size[0]] : [padded(width), padded(height)];
  if (columns < width || rows < height) throw new Error(`This model takes images up to ${columns}x${rows} pixels.`);
  const image = new Float32Array(3 * rows * columns), sparse = new Float32Array(rows * columns);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      const from = Math.min(y, height - 1) * width + Math.min(x, width - 1), to = y * columns + x;
      for (let c = 0; c < 3; c++) image[c * rows * columns + to] = pixels.data[4 * from + c] / 255;
      if (x < width && y < height) sparse[to] = map[from];
    }
  }
  const { Tensor } = state.ort;
  const feeds = {
    image: new Tensor("float32", image, [1, 3, rows, columns]),
    sparse: new Tensor("float32", sparse, [1, 1, rows, columns]),
  };
  return { feeds, columns };
}

async function run() {
  const inputs = drawInput();
  const count = inputs.map.reduce((sum, depth) => sum + (depth > 0), 0);
  const { feeds, columns } = tensors(inputs);
  say(`Completing ${state.size.width}x${state.size.height} with ${count} measurements …`);
  element("run").disabled = true;
  await new Promise((resolve) => setTimeout(resolve, 20)); // lets the page show the sentence
  try {
    const start = performance.now();
    const outputs = await state.session.run(feeds);
    const seconds = (performance.now() - start) / 1000;
    const { width, height } = state.size;
    const all = outputs.depth.data;
    const depth = new Float32Array(width * height);
    for (let y = 0; y < height; y++) depth.set(all.subarray(y * columns, y * columns + width), y * width);
    if (!depth.every(Number.isFinite)) throw new Error("The model gave no finite depth: check the unit of the measurements.");
    state.depth = { values: depth, width, height };
    document.documentElement.dataset.seconds = seconds;
    drawDepth(count);
    say(`Done in ${seconds.toFixed(2)} s (${state.provider}).`);
  } finally {
    update();
  }
}

// Google's Turbo colors, as a polynomial (Mikhailov 2019).
function turbo(x) {
  const channel = (...terms) => 255 * Math.min(1, Math.max(0, terms.reduceRight((sum, term) => sum * x + term)));
  return [
    channel(0.1357, 4.5974, -42.3277, 130.5887, -150.5666, 58.1375),
    channel(0.0914, 2.1856, 4.8052, -14.0195, 4.2109, 2.7747),
    channel(0.1067, 12.5925, -60.1097, 109.0745, -88.5066, 26.8183),
  ];
}

function drawDepth(count) {
  const { values, width, height } = state.depth;
  const sorted = Float32Array.from(values).sort();
  const near = sorted[Math.floor(0.02 * sorted.length)], far = sorted[Math.floor(0.98 * (sorted.length - 1))];
  const canvas = element("output");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  const picture = context.createImageData(width, height);
  values.forEach((depth, k) => {
    const position = (Math.log(far) - Math.log(depth)) / Math.max(1e-6, Math.log(far) - Math.log(near));
    picture.data.set([...turbo(Math.min(1, Math.max(0, position))), 255], 4 * k);
  });
  context.putImageData(picture, 0, 0);
  const unit = count ? "in the unit of the measurements" : "relative, since there are no measurements";
  element("caption").textContent = `Depth ${near.toPrecision(3)} (red) to ${far.toPrecision(3)} (blue), ${unit}.`;
}

element("photo").addEventListener("change", () => guarded(async () => {
  const file = element("photo").files[0];
  if (!file) return;
  state.image = await createImageBitmap(file).catch(() => {
    throw new Error(`${file.name} is not an image that this browser reads.`);
  });
  Object.assign(state, { clicks: [], depth: null });
  update();
}));

element("sparse").addEventListener("change", () => guarded(async () => {
  const file = element("sparse").files[0];
  state.file = file ? await readDepth(file, Number(element("scale").value)) : null;
  if (state.image && state.file) {
    const { width, height } = state.image;
    if (Math.abs(state.file.width / state.file.height / (width / height) - 1) > 0.02) {
      const size = `${state.file.width}x${state.file.height}`;
      state.file = null;
      throw new Error(`The sparse depth is ${size}, the photograph ${width}x${height}: they do not show the same view.`);
    }
  }
  update();
}));

element("scale").addEventListener("change", () => element("sparse").dispatchEvent(new Event("change")));
element("side").addEventListener("change", update);

element("input").addEventListener("click", (event) => guarded(async () => {
  const depth = Number(element("depth").value);
  if (!state.image) return;
  if (!(depth > 0)) throw new Error("The depth of a measurement is a positive number.");
  const box = element("input").getBoundingClientRect();
  state.clicks.push({ x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height, depth });
  update();
}));

element("inputs").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(run);
});

element("save").addEventListener("click", () => {
  const { values, width, height } = state.depth;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(writeNpy(values, width, height));
  link.download = "depth.npy";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});

if ("serviceWorker" in navigator) navigator.serviceWorker.register("sw.js").catch(() => {});
guarded(loadModel);
