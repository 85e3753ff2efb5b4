// Depth files in the browser: NumPy arrays, and 16-bit gray PNG, which canvases would cut to 8 bits.

export async function readDepth(file, scale) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const map = bytes[0] === 0x93 ? readNpy(bytes) : await readPng16(bytes);
  const depth = Float32Array.from(map.values, (value) => (Number.isFinite(value) && value > 0 ? value / scale : 0));
  if (map.values.some((value) => value < 0)) throw new Error("The sparse depth has negative values; 0 means no measurement.");
  return { depth, width: map.width, height: map.height };
}

export function readNpy(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (String.fromCharCode(...bytes.slice(1, 6)) !== "NUMPY") throw new Error("The depth file is no .npy file.");
  const wide = bytes[6] >= 2;
  const length = wide ? view.getUint32(8, true) : view.getUint16(8, true);
  const start = (wide ? 12 : 10) + length;
  const header = new TextDecoder("latin1").decode(bytes.slice(wide ? 12 : 10, start));
  const kind = /'descr':\s*'([^']+)'/.exec(header)?.[1];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1].split(",").filter((word) => word.trim()).map(Number);
  const readers = {
    "<f4": ["getFloat32", 4], "<f8": ["getFloat64", 8], "<u2": ["getUint16", 2], "<i4": ["getInt32", 4], "|u1": ["getUint8", 1],
  };
  if (!readers[kind] || /'fortran_order':\s*True/.test(header)) throw new Error(`The .npy file holds ${kind}; float32, float64 and uint16 in C order are read.`);
  const sides = (shape ?? []).filter((side) => side !== 1);
  if (sides.length !== 2) throw new Error("The .npy file should hold an array [height, width].");
  const [method, size] = readers[kind];
  const [height, width] = sides;
  if (bytes.length < start + size * width * height) throw new Error("The .npy file is truncated.");
  const values = Float64Array.from({ length: width * height }, (_, k) => view[method](start + size * k, true));
  return { values, width, height };
}

export async function readPng16(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.byteLength < 33 || view.getUint32(0) !== 0x89504e47) throw new Error("The depth file is neither .npy nor .png.");
  const width = view.getUint32(16), height = view.getUint32(20);
  if (bytes[24] !== 16 || bytes[25] !== 0 || bytes[28] !== 0) throw new Error("The depth .png must be gray with 16 bits, not interlaced.");
  const parts = [];
  for (let at = 8; at + 12 <= bytes.length; at += 12 + view.getUint32(at)) {
    if (view.getUint32(at + 4) === 0x49444154) parts.push(bytes.slice(at + 8, at + 8 + view.getUint32(at))); // IDAT
  }
  const stream = new Blob(parts).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint8Array(await new Response(stream).arrayBuffer());
  const row = 2 * width;
  if (raw.length < height * (row + 1)) throw new Error("The depth .png is truncated.");
  const out = new Uint8Array(height * row);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (row + 1)];
    for (let x = 0; x < row; x++) {
      const left = x >= 2 ? out[y * row + x - 2] : 0;
      const up = y ? out[(y - 1) * row + x] : 0;
      const corner = x >= 2 && y ? out[(y - 1) * row + x - 2] : 0;
      const guess = left + up - corner;
      const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
      const paeth = a <= b && a <= c ? left : b <= c ? up : corner;
      const predicted = [0, left, up, (left + up) >> 1, paeth][filter];
      out[y * row + x] = raw[y * (row + 1) + 1 + x] + predicted;
    }
  }
  const values = Float64Array.from({ length: width * height }, (_, k) => 256 * out[2 * k] + out[2 * k + 1]);
  return { values, width, height };
}

export function writeNpy(values, width, height) {
  let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${height}, ${width}), }`;
  header = header.padEnd(64 * Math.ceil((header.length + 11) / 64) - 11) + "\n";
  const bytes = new Uint8Array(10 + header.length);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  bytes.set(new TextEncoder().encode(header), 10);
  return new Blob([bytes, new Float32Array(values)], { type: "application/octet-stream" });
}
