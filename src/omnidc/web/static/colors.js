// Depth to color. The palettes are readable for the color-blind; near is bright, far is dark.

const STOPS = {
  viridis: "44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d44baddc30d8e219fde725",
  cividis: "00224e002e6a1a386f32436d434e6c535a6d61656f6f70737d7c788c88789b9476aba072bcae6ccdbb63dec958f0d846fee838",
  magma: "0000040a08221d114736106b51127c6a1c818326819c2e7fb73779d0416fe75263f56b5cfc8961fea772fec488fde2a3fcfdbf",
  gray: "000000101010202020303030404040505050606060707070808080909090a0a0a0b0b0b0c0c0c0d0d0d0e0e0e0f0f0f0ffffff",
};

/** 256 colors as [r, g, b, …]; index 0 is the dark end. */
export function palette(name) {
  const hex = STOPS[name];
  const stops = Array.from({ length: hex.length / 6 }, (_, k) => [0, 2, 4].map((i) => parseInt(hex.substr(6 * k + i, 2), 16)));
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const at = (i / 255) * (stops.length - 1);
    const k = Math.min(stops.length - 2, Math.floor(at));
    for (let c = 0; c < 3; c++) table[3 * i + c] = Math.round(stops[k][c] + (at - k) * (stops[k + 1][c] - stops[k][c]));
  }
  return table;
}

const FENCE = 1.5; // interquartile ranges beyond the quartiles, in the logarithm
export const NO_DEPTH = [120, 124, 128];

/**
 * Values to [0, 1] within a robust range; logarithmic where they span more than a factor of four. The range leaves out one
 * percent at either end, and up to five where they lie beyond Tukey's fences (as `omnidc.viz.colormap.Scale`).
 */
export class Scale {
  constructor(values) {
    const stride = Math.max(1, Math.floor(values.length / 50000));
    const sample = [];
    for (let i = 0; i < values.length; i += stride) if (values[i] > 0 && isFinite(values[i])) sample.push(values[i]);
    sample.sort((a, b) => a - b);
    const at = (share) => sample[Math.round(share * (sample.length - 1))];
    let [low, high] = [1, 2];
    if (sample.length) {
      const reach = (at(0.75) / at(0.25)) ** FENCE;
      const inside = sample.filter((v) => v >= at(0.25) / reach && v <= at(0.75) * reach);
      low = Math.max(at(0.01), Math.min(at(0.05), inside[0]));
      high = Math.min(at(0.99), Math.max(at(0.95), inside[inside.length - 1]));
    }
    if (!(high > low * 1.001)) [low, high] = [low / 1.05, high * 1.05];
    Object.assign(this, { low, high, logarithmic: high > 4 * low });
  }

  position(value) {
    const v = Math.min(this.high, Math.max(this.low, value));
    return this.logarithmic ? Math.log(v / this.low) / Math.log(this.high / this.low) : (v - this.low) / (this.high - this.low);
  }

  /** Four to nine round numbers within the range. */
  ticks() {
    const { low, high } = this;
    if (this.logarithmic) {
      for (const steps of [[1], [1, 3], [1, 2, 5], [1, 2, 3, 5], [1, 1.5, 2, 3, 4, 5, 7]]) {
        const found = [];
        for (let e = Math.floor(Math.log10(low)) - 1; e <= Math.ceil(Math.log10(high)); e++)
          for (const s of steps) if (s * 10 ** e >= low && s * 10 ** e <= high) found.push(s * 10 ** e);
        if (found.length >= 4) return found;
      }
    }
    const unit = 10 ** Math.floor(Math.log10(high - low));
    for (const factor of [5, 2.5, 2, 1, 0.5, 0.25, 0.2, 0.1]) {
      const step = factor * unit, first = Math.ceil(low / step), last = Math.floor(high / step);
      if (last - first + 1 >= 4) return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
    }
    return [low, high];
  }
}

/** Draw a map [rows × columns] onto a canvas of that size; gray = no value. bright: "near" (small values bright) or "high". */
export function paint(canvas, values, columns, rows, scale, table, bright = "near") {
  canvas.width = columns;
  canvas.height = rows;
  const picture = new ImageData(columns, rows);
  for (let i = 0; i < values.length; i++) {
    const p = scale.position(values[i]);
    const k = 3 * Math.round(255 * (bright === "near" ? 1 - p : p));
    picture.data.set(values[i] > 0 ? [table[k], table[k + 1], table[k + 2], 255] : [...NO_DEPTH, 255], 4 * i);
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

/** Draw a picture of bytes [rows × columns × 3] onto a canvas of that size. */
export function paintPicture(canvas, bytes, columns, rows) {
  Object.assign(canvas, { width: columns, height: rows });
  const picture = new ImageData(columns, rows);
  for (let i = 0; i < columns * rows; i++) picture.data.set([bytes[3 * i], bytes[3 * i + 1], bytes[3 * i + 2], 255], 4 * i);
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

/** Up to four significant digits, without needless zeros. */
export function number(value) {
  if (!isFinite(value)) return "–";
  return Number(value.toPrecision(value >= 1000 ? 4 : 3)).toLocaleString("en", { maximumSignificantDigits: 4, useGrouping: false });
}
