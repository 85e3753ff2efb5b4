// The page: what is chosen on the left is sent to the server, what comes back is shown on the right.

import { Cloud } from "./cloud.js";
import { NO_DEPTH, Scale, number, paint, paintPicture, palette } from "./colors.js";
import { showVerdict } from "./doctor.js";
import { Editor } from "./editor.js";
import { drawLength, length } from "./measure.js";

const $ = (id) => document.getElementById(id);
const state = { mode: "file", image: null, sparse: null, example: null, unit: "", view: null, shown: "depth", at: null, ends: [], result: null, running: null, checking: null };
let info = null, cloud = null, colors = palette("viridis"), timer = 0;

const editor = new Editor($("photo"), { changed: pointsChanged, picked: pointPicked, distance: newDistance });

// --- tabs: arrow keys move, as in every tab list -------------------------------------------------------------------

function tabs(list, choose) {
  const buttons = [...$(list).querySelectorAll("[role=tab]")];
  const select = (button, focus) => {
    for (const b of buttons) {
      b.setAttribute("aria-selected", b === button);
      b.tabIndex = b === button ? 0 : -1;
    }
    if (focus) button.focus();
    choose(button.id.split("-")[1], button);
  };
  buttons.forEach((b, k) => {
    b.onclick = () => select(b);
    b.onkeydown = (e) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
      if (step) select(buttons[(k + step + buttons.length) % buttons.length], true);
    };
  });
  return (name) => select(buttons.find((b) => b.id.endsWith(`-${name}`)));
}

const chooseMode = tabs("modes", (mode) => {
  const changed = mode !== state.mode;
  state.mode = mode;
  for (const name of ["file", "points", "example"]) $(`panel-${name}`).hidden = name !== mode;
  $("files").hidden = mode === "example";
  $("sparse-field").hidden = mode !== "file";
  $("list-box").hidden = $("photo-readout").hidden = mode !== "points";
  editor.setEditing(mode === "points");
  pointPicked(editor.selected);
  refresh();
  if (changed && mode === "points" && state.image) schedule();
});

const chooseView = tabs("views", (view, button) => {
  state.shown = view;
  const panel = { depth: "show-map", uncertainty: "show-map", normals: "show-map", compare: "show-compare", cloud: "show-cloud" }[view];
  for (const name of ["show-map", "show-compare", "show-cloud"]) $(name).hidden = name !== panel;
  $(panel).setAttribute("aria-labelledby", button.id);
  showView();
});

// --- input ---------------------------------------------------------------------------------------------------------

async function takeImage(file) {
  complain("");
  if (file.size > info.max_bytes) return complain(`${file.name} is larger than the ${megabytes(info.max_bytes)} that are taken here.`);
  let picture;
  try {
    picture = await createImageBitmap(file);
  } catch {
    picture = await serverPreview(file); // a format the browser cannot show, or no picture at all
    if (!picture) return;
  }
  const { width, height } = picture.size || picture;
  if (width * height > info.max_pixels)
    return complain(`${file.name} has ${width}x${height} pixels, more than the ${info.max_pixels / 1e6} megapixels that are taken here: shrink it.`);
  state.running?.abort(); // of another photograph, like the result that is shown
  clearResult();
  // A camera belongs to a size, and an example's camera to the example.
  if (state.example || (editor.picture && (editor.width !== width || editor.height !== height))) $("intrinsics").value = "";
  Object.assign(state, { image: file, example: null, unit: "" });
  $("image-name").textContent = file.name;
  editor.load(picture, width, height);
  refresh();
  if (state.mode === "points" || state.sparse) schedule();
}

async function serverPreview(file) {
  const form = new FormData();
  form.append("image", file);
  const answer = await fetch("page/preview", { method: "POST", body: form }).catch(() => null);
  if (!answer) return void complain("The server cannot be reached: is omnidc web still running?");
  if (!answer.ok) return void complain(await sentence(answer));
  return createImageBitmap(await answer.blob());
}

function takeSparse(file) {
  complain("");
  if (file.size > info.max_bytes) return complain(`${file.name} is larger than the ${megabytes(info.max_bytes)} that are taken here.`);
  Object.assign(state, { sparse: file, example: null, unit: "" });
  $("sparse-name").textContent = file.name;
  refresh();
  if (state.image) schedule();
}

/** 16-bit PNGs and files that are no pictures hold depth. */
async function isDepth(file) {
  const suffix = file.name.slice(file.name.lastIndexOf(".")).toLowerCase();
  if (suffix === ".png") {
    const head = new Uint8Array(await file.slice(0, 26).arrayBuffer());
    return head[24] === 16 && head[25] === 0;
  }
  return [".npy", ".npz", ".exr", ".pfm"].includes(suffix) || (/\.tiff?$/.test(suffix) && /depth|sparse/i.test(file.name));
}

async function takeDropped(files) {
  if (state.mode === "example") chooseMode("file");
  for (const file of files) {
    if (await isDepth(file)) {
      if (state.mode !== "file") chooseMode("file");
      takeSparse(file);
    } else await takeImage(file);
  }
}

async function takeExample(example) {
  const [image, sparse] = await Promise.all([example.image, example.sparse].map(async (name) => {
    const answer = await fetch(`page/examples/${name}`);
    return new File([await answer.blob()], name);
  }));
  state.sparse = null;
  await takeImage(image);
  Object.assign(state, { sparse, example, unit: "m" });
  $("intrinsics").value = example.intrinsics.join(", ");
  $("sparse-name").textContent = sparse.name;
  $("keep").value = 100 * example.keep;
  $("outliers").value = 100 * example.outliers;
  showSliders();
  refresh();
  run(true);
}

// --- points --------------------------------------------------------------------------------------------------------

function newDistance() {
  const value = Number($("distance").value);
  if (value > 0 && isFinite(value)) return value;
  complain("A distance is a positive number: type one before you set a point.");
  $("distance").focus();
  return null;
}

function pointPicked(index, typing = false) {
  const point = state.mode === "points" ? editor.points[index] : null;
  $("delete-point").disabled = !point;
  $("clear-points").disabled = !editor.points.length;
  if (point) {
    $("distance").value = point.depth;
    $("photo-readout").textContent = `Point ${index + 1} of ${editor.points.length} at x ${point.x}, y ${point.y}: ${point.depth} m`;
    if (typing) { $("distance").focus({ preventScroll: true }); $("distance").select(); }
  } else $("photo-readout").textContent = "";
  listPoints();
}

function pointsChanged() {
  complain("");
  listPoints();
  refresh();
  schedule();
}

function setDistance(index, value) {
  if (!(value > 0 && isFinite(value))) return complain("A distance is a positive number.");
  complain("");
  if (editor.points[index].depth === value) return;
  editor.points[index].depth = value;
  editor.select(index);
  pointsChanged();
}

function listPoints() {
  $("list-title").textContent = `Points (${editor.points.length})`;
  const field = (value, label, change) => {
    const input = Object.assign(document.createElement("input"), { type: "number", value, step: "any", min: 0 });
    input.setAttribute("aria-label", label);
    input.onchange = () => change(Number(input.value));
    return input;
  };
  $("point-list").replaceChildren(...editor.points.map((p, k) => {
    const row = document.createElement("tr");
    row.classList.toggle("selected", k === editor.selected);
    const drop = Object.assign(document.createElement("button"), { type: "button", textContent: "Delete" });
    drop.setAttribute("aria-label", `Delete point ${k + 1}`);
    drop.onclick = () => editor.remove(k);
    const place = (axis, top) => field(p[axis], `${axis} of point ${k + 1}`, (v) => {
      p[axis] = Math.max(0, Math.min(top - 1, Math.round(v) || 0));
      editor.select(k);
      pointsChanged();
    });
    for (const content of [`${k + 1}`, place("x", editor.width), place("y", editor.height), field(p.depth, `Distance of point ${k + 1}`, (v) => setDistance(k, v)), drop])
      row.insertCell().append(content);
    return row;
  }));
}

// --- running -------------------------------------------------------------------------------------------------------

function refresh() {
  $("run").disabled = !state.image;
}

function schedule() {
  clearTimeout(timer);
  if ($("auto").checked && state.image) timer = setTimeout(() => run(), 350);
}

function form() {
  const data = new FormData();
  data.append("image", state.image, state.image.name);
  if (state.mode === "points") {
    data.append("points", JSON.stringify(editor.points.map((p) => [p.x, p.y, p.depth])));
    data.append("unit", "m");
  } else if (state.sparse) {
    data.append("sparse", state.sparse, state.sparse.name);
    data.append("unit", state.unit);
    data.append("depth_scale", state.example ? (state.example.depth_scale ?? "") : $("depth-scale").value);
    if (state.mode === "file") {
      data.append("resize_sparse", $("resize-sparse").checked);
      data.append("ray_depth", $("ray-depth").checked);
    }
  }
  data.append("keep_input", $("keep-input").checked ? "hard" : "soft");
  data.append("intrinsics", $("intrinsics").value.trim());
  data.append("field_of_view", $("fov").value);
  data.append("keep", $("keep").value / 100);
  data.append("outliers", $("outliers").value / 100);
  return data;
}

/** asked: by a button, not by a change; on a narrow screen the page then goes to the result. */
async function run(asked = false) {
  clearTimeout(timer);
  if (!state.image) return;
  state.running?.abort();
  const mine = (state.running = new AbortController());
  complain("");
  working("Sending …", null);
  const started = performance.now();
  try {
    const answer = await fetch("page/complete", { method: "POST", body: form(), signal: mine.signal });
    if (!answer.ok) throw new Error(await sentence(answer));
    let done = null;
    for await (const line of lines(answer.body)) {
      if (line.state === "waiting") working(`Waiting: place ${line.place} in the queue.`, null);
      else if (line.state === "running") working("Completing depth …", line.progress);
      else if (line.state === "failed") throw new Error(line.error);
      else done = line.result;
    }
    if (!done) throw new Error("The server stopped before the result was ready.");
    const packed = await fetch(`page/results/${done}/view`, { signal: mine.signal });
    if (!packed.ok) throw new Error(await sentence(packed));
    const view = unpack(await packed.arrayBuffer());
    forgetResult();
    state.result = done;
    state.view = view;
    working("", 1);
    $("status").textContent = `Done in ${((performance.now() - started) / 1000).toFixed(1)} s.`;
    showResult();
    if (asked && matchMedia("(max-width: 899px)").matches) $("result").scrollIntoView();
  } catch (error) {
    if (state.running !== mine) return; // a newer run took over
    if (error.name === "AbortError") $("status").textContent = "Cancelled.";
    else {
      $("status").textContent = "";
      markStale(true);
      complain(error instanceof TypeError ? "The server cannot be reached: is omnidc web still running?" : error.message);
    }
  } finally {
    if (state.running === mine) {
      state.running = null;
      $("cancel").hidden = $("progress").hidden = true;
    }
  }
}

function working(text, progress) {
  $("status").textContent = text;
  $("cancel").hidden = $("progress").hidden = false;
  if (progress === null || progress === undefined) $("progress").removeAttribute("value");
  else $("progress").value = progress;
}

async function* lines(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) yield JSON.parse(part);
  }
}

function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const view = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  view.count = view.points;
  for (const { name, type, count } of view.arrays) {
    const Kind = type === "<f4" ? Float32Array : Uint8Array;
    view[name] = new Kind(buffer, at, count);
    at += count * Kind.BYTES_PER_ELEMENT;
  }
  return view;
}

async function sentence(answer) {
  try {
    return (await answer.json()).error;
  } catch {
    return `The server answered with status ${answer.status}.`;
  }
}

/** The sentence stands at the lower edge of the window, wherever the page is scrolled to. */
function complain(text) {
  $("error").hidden = !text;
  $("error-text").textContent = text;
}
$("error-close").onclick = () => complain("");

/** The result on show belongs to an input that was replaced by one that failed. */
function markStale(stale) {
  $("stale").hidden = !stale || !state.view;
  $("output").classList.toggle("old", stale && Boolean(state.view));
}

const megabytes = (bytes) => `${Math.round(bytes / 2 ** 20)} MB`;

/** The server keeps a result for its downloads; the page lets go of it as soon as it shows another. */
function forgetResult() {
  if (state.result) fetch(`page/results/${state.result}`, { method: "DELETE", keepalive: true }).catch(() => {});
  state.result = null;
}

function clearResult() {
  forgetResult();
  state.view = null;
  state.ends = [];
  clearVerdict();
  markStale(false);
  $("status").textContent = "";
  $("readout").textContent = "Point at the map to read a value.";
  state.at = null;
  $("output").hidden = true;
  $("nothing").hidden = false;
}

// --- output --------------------------------------------------------------------------------------------------------

function unit() {
  return state.view.relative ? "(relative)" : state.view.unit === "m" ? "m" : "";
}

function showResult() {
  const { view } = state;
  markStale(false);
  view.scale = new Scale(view.depth);
  if (view.uncertainty) view.spread = new Scale(view.uncertainty);
  $("nothing").hidden = true;
  $("output").hidden = false;
  $("relative").hidden = !view.relative;
  const sentences = view.warnings.filter((w) => !(view.relative && /no depth points|switched off/.test(w)));
  $("warnings").replaceChildren(...sentences.map((w) => Object.assign(document.createElement("li"), { textContent: w })));
  for (const link of $("downloads").querySelectorAll("a")) link.href = `page/results/${state.result}/${link.download}`;
  $("save-uncertainty").hidden = !view.uncertainty;
  $("doctor-box").hidden = !view.count;
  $("no-depth-key").hidden = !view.depth.some((d) => !(d > 0));
  clearVerdict();
  const facts = [["Model", view.model], ["Input", view.summary]];
  if (view.count) facts.push(["Low confidence", distrust(view)]);
  facts.push(["Camera", cameraText(view)]);
  $("facts").replaceChildren(...facts.flatMap(([name, value]) => [
    Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: value })]));
  if (state.at) readAt(...state.at);
  showView();
}

function cameraText(view) {
  const degrees = number((360 / Math.PI) * Math.atan(view.width / 2 / view.camera[0])), focal = `focal length ${number(view.camera[0])} pixels, ${degrees}° across the width`;
  if (view.camera_source === "exif") return `${focal}, from the photograph’s EXIF data`;
  return view.camera_source === "assumed" ? `not known; assumed ${degrees}° across the width` : focal;
}

function distrust(view) {
  let text = view.distrusted
    ? `${view.distrusted} of ${view.count} points (crosses in the photograph; confidence below ${view.distrust_below * 100} %)`
    : `none of the ${view.count} points`;
  if (!info.model.uses_photograph) text += "; this model believes every point";
  return view.num_outliers ? `${text}. ${view.num_outliers} were made wrong.` : text;
}

function markPoints() {
  const { view } = state, marks = [];
  for (let i = 0; i < view.points.length; i += 4) {
    const k = 3 * Math.round(255 * (1 - view.scale.position(view.points[i + 2])));
    marks.push({ x: view.points[i], y: view.points[i + 1], color: `rgb(${colors[k]},${colors[k + 1]},${colors[k + 2]})`, distrusted: view.points[i + 3] < view.distrust_below });
  }
  editor.mark(marks);
}

function showView() {
  const { view, shown } = state;
  if (!view) return;
  const uncertain = shown === "uncertainty", missing = uncertain && !view.uncertainty, normals = shown === "normals";
  $("map").parentElement.hidden = missing;
  $("no-uncertainty").hidden = !missing;
  $("no-uncertainty").textContent = `The model “${view.model}” gives no uncertainty.`;
  $("compare").hidden = !view.linear;
  $("no-compare").hidden = Boolean(view.linear);
  $("measured").hidden = missing;
  $("normals-key").hidden = !normals;
  $("bar-box").hidden = missing || normals || (shown === "cloud" && !$("cloud-color").checked) || (shown === "compare" && !view.linear);
  if (shown === "depth") paint($("map"), view.depth, view.columns, view.rows, view.scale, colors);
  if (uncertain && !missing) paint($("map"), view.uncertainty, view.columns, view.rows, view.spread, colors, "high");
  if (normals) paintPicture($("map"), view.normals, view.columns, view.rows);
  if (["depth", "uncertainty", "normals"].includes(shown) && !missing) showLength();
  if (shown === "compare" && view.linear) {
    paint($("compare-after"), view.depth, view.columns, view.rows, view.scale, colors);
    paint($("compare-before"), view.linear, view.columns, view.rows, view.scale, colors);
    split();
  }
  if (shown === "cloud") showCloud();
  showBar(uncertain ? view.spread : view.scale, uncertain ? "high" : "near");
  markPoints();
}

function showBar(scale, bright) {
  if (!scale) return;
  const ramp = Float32Array.from({ length: 256 }, (_, i) => (i + 0.5) / 256);
  paint($("bar"), ramp, 256, 1, { position: (v) => v }, colors, bright);
  const ticks = scale.ticks(), label = unit();
  $("ticks").replaceChildren(...ticks.map((tick, k) => {
    const mark = Object.assign(document.createElement("span"), { textContent: Number(tick.toPrecision(4)) + (k === ticks.length - 1 && label ? ` ${label}` : "") });
    mark.style.setProperty("--at", `${100 * scale.position(tick)}%`);
    return mark;
  }));
}

function showCloud() {
  const { view } = state;
  cloud ??= new Cloud($("cloud"));
  $("cloud-hint").textContent = `${cloud.gl ? "" : "No WebGL here, so it turns slowly. "}Drag to turn, wheel or pinch to come closer, Shift and drag to move.`;
  let shades = view.image;
  if ($("cloud-color").checked) {
    shades = new Uint8Array(3 * view.depth.length);
    view.depth.forEach((d, i) => {
      const k = 3 * Math.round(255 * (1 - view.scale.position(d)));
      shades.set(colors.subarray(k, k + 3), 3 * i);
    });
  }
  cloud.show(view, shades);
}

function split() {
  const value = Number($("split").value);
  $("compare-before").style.clipPath = `inset(0 ${100 - value}% 0 0)`;
  $("handle").style.left = `${value}%`;
}

/** The value under the cursor, in the photograph's pixels. */
function readAt(u, v) {
  const { view } = state;
  u = Math.max(0, Math.min(view.columns - 1, u));
  v = Math.max(0, Math.min(view.rows - 1, v));
  const i = v * view.columns + u, label = unit();
  const spread = view.uncertainty ? ` ± ${number(view.uncertainty[i])}` : "";
  let text = `x ${u * view.step}, y ${v * view.step}: ${view.depth[i] > 0 ? `${number(view.depth[i])}${spread} ${label}` : "no depth"}`;
  if (state.shown === "compare" && view.linear) text += `; linear interpolation ${number(view.linear[i])} ${label}`;
  $("readout").textContent = text;
  state.at = [u, v];
}

/** An end of the length to measure; a third one begins the next length. */
function setEnd(u, v) {
  state.ends = [...(state.ends.length > 1 ? [] : state.ends), [u, v]];
  showView();
}

function showLength() {
  const { view, ends } = state;
  $("measured").textContent = "Click two places to measure the length between them.";
  if (!ends.length) return;
  drawLength($("map"), ends);
  $("measured").textContent = "Click the other end.";
  if (ends.length < 2) return;
  const found = length(view, ...ends), [a, b] = ends.map(([u, v]) => `x ${u * view.step}, y ${v * view.step}`);
  if (!found) return void ($("measured").textContent = "One of the two places has no depth.");
  const spread = found.spread === null ? "" : ` ± ${number(Number(found.spread.toPrecision(2)))}`, guess = view.camera_source === "assumed" ? "; the camera is assumed" : "";
  $("measured").textContent = `Length ${number(found.value)}${spread} ${unit()} from ${a} to ${b}${guess}`;
}

function placeIn(canvas, e) {
  const frame = canvas.getBoundingClientRect(), { columns, rows } = state.view;
  const inside = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
  return [inside((e.clientX - frame.left) / frame.width, columns), inside((e.clientY - frame.top) / frame.height, rows)];
}

function readable(canvas, box = canvas) {
  box.addEventListener("pointermove", (e) => {
    if (state.view) readAt(...placeIn(canvas, e));
  });
  canvas.addEventListener("keydown", (e) => {
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    if (!arrow || !state.view) return;
    e.preventDefault();
    const step = e.shiftKey ? 1 : Math.max(1, Math.round(state.view.columns / 50));
    const [u, v] = state.at || [state.view.columns >> 1, state.view.rows >> 1];
    readAt(u + arrow[0] * step, v + arrow[1] * step);
    showView();
    const g = canvas.getContext("2d");
    for (const [width, color] of [[3, "#000"], [1, "#fff"]]) {
      Object.assign(g, { lineWidth: width, strokeStyle: color });
      g.strokeRect(state.at[0] - 4, state.at[1] - 4, 9, 9);
    }
  });
}

// --- the doctor ----------------------------------------------------------------------------------------------------

function clearVerdict() {
  state.checking?.abort();
  $("verdict").hidden = $("doctor-progress").hidden = true;
  $("doctor").disabled = false;
}

async function check() {
  const mine = (state.checking = new AbortController());
  $("doctor").disabled = true;
  $("doctor-progress").hidden = false;
  $("doctor-progress").value = 0;
  try {
    const answer = await fetch(`page/results/${state.result}/doctor`, { method: "POST", signal: mine.signal });
    if (!answer.ok) throw new Error(await sentence(answer));
    let verdict = null;
    for await (const line of lines(answer.body)) {
      if (line.state === "running") $("doctor-progress").value = line.progress;
      else if (line.state === "failed") throw new Error(line.error);
      else verdict = line.verdict;
    }
    if (!verdict) throw new Error("The server stopped before the check was done.");
    showVerdict($("verdict"), verdict);
    $("verdict").hidden = false;
  } catch (error) {
    if (error.name !== "AbortError") complain(error instanceof TypeError ? "The server cannot be reached: is omnidc web still running?" : error.message);
  } finally {
    if (state.checking === mine) {
      state.checking = null;
      $("doctor").disabled = false;
      $("doctor-progress").hidden = true;
    }
  }
}

// --- wiring --------------------------------------------------------------------------------------------------------

function showSliders() {
  $("keep-out").textContent = `${$("keep").value} %`;
  $("outliers-out").textContent = `${$("outliers").value} %`;
}

$("image-file").onchange = (e) => e.target.files[0] && takeImage(e.target.files[0]);
$("sparse-file").onchange = (e) => e.target.files[0] && takeSparse(e.target.files[0]);
$("distance").onchange = () => editor.selected >= 0 && setDistance(editor.selected, Number($("distance").value));
$("distance").onkeydown = (e) => {
  if (e.key !== "Enter") return;
  $("distance").onchange();
  $("photo").focus();
};
$("delete-point").onclick = () => editor.remove(editor.selected);
$("clear-points").onclick = () => editor.clear();
for (const id of ["keep", "outliers"]) {
  $(id).oninput = showSliders;
  $(id).onchange = schedule;
}
for (const id of ["fov", "intrinsics", "depth-scale", "resize-sparse", "ray-depth", "keep-input"]) $(id).onchange = schedule;
$("doctor").onclick = check;
$("map").onclick = (e) => state.view && setEnd(...placeIn($("map"), e));
$("map").addEventListener("keydown", (e) => {
  if (!state.view) return;
  if (e.key === "Enter") setEnd(...(state.at || [state.view.columns >> 1, state.view.rows >> 1]));
  else if (e.key === "Escape") { state.ends = []; showView(); }
});
$("run").onclick = () => run(true);
$("cancel").onclick = () => state.running?.abort();
$("palette").onchange = (e) => { colors = palette(e.target.value); showView(); };
$("split").oninput = split;
$("cloud-reset").onclick = () => cloud?.front();
$("cloud-color").onchange = showView;
$("cloud-spin").onclick = (e) => {
  const on = e.target.getAttribute("aria-pressed") !== "true";
  e.target.setAttribute("aria-pressed", on);
  cloud?.spin(on);
};
readable($("map"));
readable($("compare-after"), $("compare"));
for (const kind of ["dragenter", "dragover"]) addEventListener(kind, (e) => { e.preventDefault(); document.body.classList.add("dragging"); });
for (const kind of ["dragleave", "drop"]) addEventListener(kind, (e) => { e.preventDefault(); if (kind === "drop" || !e.relatedTarget) document.body.classList.remove("dragging"); });
addEventListener("drop", (e) => e.dataTransfer.files.length && takeDropped([...e.dataTransfer.files]));
addEventListener("pagehide", forgetResult);

info = await (await fetch("page/info")).json();
const name = Object.assign(document.createElement("strong"), { textContent: info.model.name });
$("model").replaceChildren("Model: ", name, `. ${info.model.description}`);
$("version").textContent = info.version;
$("fov").placeholder = $("assumed-fov").textContent = info.field_of_view;
document.documentElement.style.setProperty("--no-depth", `rgb(${NO_DEPTH})`);
$("suffixes").textContent = info.depth_suffixes.map((s) => s.slice(1)).join(", ");
$("sparse-file").accept = info.depth_suffixes.join(",");
$("limits").textContent = `Up to ${megabytes(info.max_bytes)} and ${info.max_pixels / 1e6} megapixels.`;
$("examples").replaceChildren(...info.examples.map((example) => {
  const button = document.createElement("button");
  button.type = "button";
  const picture = Object.assign(document.createElement("img"), { src: `page/examples/${example.image}`, alt: "", loading: "lazy" });
  const text = Object.assign(document.createElement("span"), { textContent: example.title });
  text.append(Object.assign(document.createElement("small"), { textContent: example.about }));
  button.append(picture, text);
  button.onclick = () => takeExample(example);
  return button;
}));
document.body.dataset.ready = "true";
