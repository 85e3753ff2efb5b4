// The photograph with its points: shown, and in "Click points" set, moved and deleted by mouse, touch and keyboard.

export class Editor {
  /** changed(): points were edited. picked(index): another point is selected, -1 = none. distance(): of a new point, or null. */
  constructor(canvas, { changed, picked, distance }) {
    Object.assign(this, { canvas, changed, picked, distance });
    Object.assign(this, { picture: null, points: [], selected: -1, editing: false, shown: [], cross: null, dragging: false });
    canvas.addEventListener("pointerdown", (e) => this.down(e));
    canvas.addEventListener("pointermove", (e) => this.move(e));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => this.up());
    // Scrolling the page by touch stays possible, except from a point that is about to be dragged.
    canvas.addEventListener("touchstart", (e) => {
      const touch = e.touches[0], [x, y] = this.where(touch);
      if (this.editing && this.hit(x, y, 24) >= 0) e.preventDefault();
    }, { passive: false });
    canvas.addEventListener("keydown", (e) => this.key(e));
    canvas.addEventListener("blur", () => { this.cross = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  /** picture: anything drawable, with the photograph's width and height. */
  load(picture, width, height) {
    Object.assign(this, { picture, width, height, points: [], shown: [], selected: -1, cross: null });
    this.canvas.parentElement.classList.remove("empty");
    this.draw();
    this.picked(-1);
  }

  /** Points of a result: [{x, y, color, isLow}]; drawn where points are not being edited, or under them. */
  mark(points) {
    this.shown = points;
    this.draw();
  }

  setEditing(on) {
    this.editing = on;
    this.canvas.classList.toggle("editing", on);
    this.draw();
  }

  select(index) {
    this.selected = index;
    this.draw();
    this.picked(index);
  }

  remove(index) {
    if (index < 0) return;
    this.points.splice(index, 1);
    this.select(Math.min(index, this.points.length - 1));
    this.changed();
  }

  clear() {
    this.points = [];
    this.select(-1);
    this.changed();
  }

  get zoom() { return this.canvas.clientWidth / this.width; }

  where(e) {
    const box = this.canvas.getBoundingClientRect();
    const clamp = (v, top) => Math.max(0, Math.min(top - 1, Math.round(v)));
    return [clamp((e.clientX - box.left) / this.zoom - 0.5, this.width), clamp((e.clientY - box.top) / this.zoom - 0.5, this.height)];
  }

  hit(x, y, radius) {
    let best = -1, least = radius / this.zoom;
    this.points.forEach((p, k) => {
      const d = Math.hypot(p.x - x, p.y - y);
      if (d <= least) [best, least] = [k, d];
    });
    return best;
  }

  put(x, y) {
    const distance = this.distance();
    if (distance === null) return false;
    this.points.push({ x, y, depth: distance });
    this.select(this.points.length - 1);
    this.changed();
    return true;
  }

  down(e) {
    if (!this.editing || !this.picture || e.button > 0) return;
    const [x, y] = this.where(e), found = this.hit(x, y, e.pointerType === "mouse" ? 12 : 24);
    this.cross = null;
    if (found >= 0) this.select(found);
    else if (!this.put(x, y)) return;
    this.dragging = true;
    this.moved = false;
    this.canvas.setPointerCapture(e.pointerId);
    e.preventDefault();
  }

  move(e) {
    if (!this.dragging) return;
    const [x, y] = this.where(e), point = this.points[this.selected];
    if (!point || (point.x === x && point.y === y)) return;
    Object.assign(point, { x, y });
    this.moved = true;
    this.draw();
  }

  up() {
    if (!this.dragging) return;
    this.dragging = false;
    if (this.moved) this.changed();
    this.picked(this.selected, true);
  }

  key(e) {
    if (!this.editing || !this.picture) return;
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[e.key];
    const step = e.shiftKey ? 1 : Math.max(1, Math.round(this.width / 50));
    const clamp = (v, top) => Math.max(0, Math.min(top - 1, v));
    if (arrow && e.altKey && this.selected >= 0) {
      const p = this.points[this.selected];
      Object.assign(p, { x: clamp(p.x + arrow[0] * step, this.width), y: clamp(p.y + arrow[1] * step, this.height) });
      this.select(this.selected);
      this.changed();
    } else if (arrow) {
      const [x, y] = this.cross || [this.width >> 1, this.height >> 1];
      this.cross = [clamp(x + arrow[0] * step, this.width), clamp(y + arrow[1] * step, this.height)];
      this.draw();
    } else if (e.key === "Enter" || e.key === " ") {
      const [x, y] = this.cross || (this.cross = [this.width >> 1, this.height >> 1]);
      const found = this.hit(x, y, 12);
      if (found >= 0) this.select(found);
      else if (!this.put(x, y)) return e.preventDefault();
      this.picked(this.selected, true);
    } else if (e.key === "Delete" || e.key === "Backspace") this.remove(this.selected);
    else if ((e.key === "n" || e.key === "p") && this.points.length) {
      const n = this.points.length;
      this.select((this.selected + (e.key === "n" ? 1 : n - 1) + n) % n);
    } else return;
    e.preventDefault();
  }

  draw() {
    const { canvas } = this;
    if (!this.picture || !canvas.parentElement.clientWidth) return;
    const ratio = Math.min(2, window.devicePixelRatio || 1), zoom = canvas.parentElement.clientWidth / this.width;
    canvas.width = Math.round(this.width * zoom * ratio);
    canvas.height = Math.round(this.height * zoom * ratio);
    const g = canvas.getContext("2d");
    g.imageSmoothingQuality = "high";
    g.drawImage(this.picture, 0, 0, canvas.width, canvas.height);
    g.scale(ratio, ratio);
    const at = (p) => [(p.x + 0.5) * zoom, (p.y + 0.5) * zoom];
    const crowd = Math.sqrt((this.width * zoom * this.height * zoom) / Math.max(1, this.shown.length));
    const radius = Math.max(1, Math.min(5, 0.22 * crowd));
    if (!this.editing)
      for (const p of this.shown) {
        if (!p.isLow) disc(g, ...at(p), radius, p.color);
      }
    for (const p of this.shown) if (p.isLow) cross(g, ...at(p), Math.max(4, radius + 1));
    if (this.editing)
      this.points.forEach((p, k) => {
        const [x, y] = at(p);
        disc(g, x, y, k === this.selected ? 8 : 6, k === this.selected ? "#ffffff" : "#fde725");
        label(g, `${p.depth}`, x + 11, y);
      });
    if (this.cross) {
      const [x, y] = at({ x: this.cross[0], y: this.cross[1] });
      for (const [width, color] of [[3, "#000"], [1.2, "#fff"]]) {
        g.lineWidth = width;
        g.strokeStyle = color;
        g.beginPath();
        g.moveTo(x - 14, y); g.lineTo(x + 14, y); g.moveTo(x, y - 14); g.lineTo(x, y + 14);
        g.stroke();
      }
    }
  }
}

function disc(g, x, y, radius, color) {
  g.beginPath();
  g.arc(x, y, radius, 0, 7);
  g.fillStyle = color;
  g.fill();
  if (radius >= 2) {
    g.lineWidth = 1.5;
    g.strokeStyle = "#14141a";
    g.stroke();
  }
}

/** A point of low confidence: marked by its shape as well as its color. */
function cross(g, x, y, r) {
  for (const [width, color] of [[4.5, "#14141a"], [2.2, "#ff5ad0"]]) {
    g.lineWidth = width;
    g.strokeStyle = color;
    g.beginPath();
    g.moveTo(x - r, y - r); g.lineTo(x + r, y + r); g.moveTo(x + r, y - r); g.lineTo(x - r, y + r);
    g.stroke();
  }
}

function label(g, text, x, y) {
  g.font = "600 13px system-ui, sans-serif";
  g.textBaseline = "middle";
  g.lineWidth = 4;
  g.lineJoin = "round";
  g.strokeStyle = "#14141ae0";
  g.strokeText(text, x, y);
  g.fillStyle = "#fff";
  g.fillText(text, x, y);
}
