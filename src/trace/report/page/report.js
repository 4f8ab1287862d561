'use strict';
// The pictures of the page, in one file: the page contains it without a loader, and pictures share their scales.
//
// Names come from the tables as text and go to text again. All other input of this script are
// numbers (data.h has their order). Nothing here can reach a network.
(() => {

// --- Numbers as text ----------------------------------------------------------------------------

const grouped = n => Math.round(n).toLocaleString('en-US');
const scaled = (value, step, units) => {
  let unit = 0;
  while (Math.abs(value) >= step * 0.9995 && unit + 1 < units.length) { value /= step; ++unit; }
  const digits = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return value.toFixed(digits) + '\u00a0' + units[unit];
};
const bytesText = n => scaled(n, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB']);
const rateText = n => scaled(n, 1000, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s']);
const nsText = ns => ns < 1000 ? Math.round(ns) + '\u00a0ns' : scaled(ns, 1000, ['ns', 'µs', 'ms', 's']);
const countText = n => n < 1000 ? (n < 10 && n % 1 ? n.toFixed(1) : grouped(n)) : scaled(n, 1000, ['', 'k', 'M', 'G']);
// Drops trailing zeros, for the marks of axes.
const trimmed = text => text.replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');

// Returns a step of 1, 2 or 5 times a power of ten; or of a power of two, for bytes.
const niceStep = (range, marks, base) => {
  const rough = Math.max(range / Math.max(marks, 1), 1e-12);
  if (base === 2) return 2 ** Math.ceil(Math.log2(rough));
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * (rough <= power ? 1 : rough <= 2 * power ? 2 : rough <= 5 * power ? 5 : 10);
};
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// --- The data -----------------------------------------------------------------------------------

class Numbers {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  next() {
    // Multiplication is exact up to 53 bits; shifts end at 32.
    let value = 0, scale = 1, byte;
    do {
      byte = this.bytes[this.at++];
      if (byte === undefined) throw new Error('the page\'s data end too early');
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte > 127);
    return value;
  }
  signed() {
    const n = this.next();
    return n % 2 ? -(n + 1) / 2 : n / 2;
  }
  column(count, signed) {
    this.next();  // size of the column in bytes
    const values = new Float64Array(count);
    for (let i = 0; i < count; ++i) values[i] = signed ? this.signed() : this.next();
    return values;
  }
}

const sums = values => {
  for (let i = 1; i < values.length; ++i) values[i] += values[i - 1];
  return values;
};

const readPicture = numbers => {
  const picture = {
    first: numbers.next(), requests: numbers.next(), columns: numbers.next(), rows: numbers.next(),
    per: numbers.next(),
  };
  const most = Math.ceil(numbers.next() / 3) + 1;  // a cell takes three bytes at least
  const begin = new Uint32Array(picture.columns + 1);
  const row = new Uint16Array(most), reads = new Uint32Array(most), writes = new Uint32Array(most);
  let cells = 0;
  for (let column = 0; column < picture.columns; ++column) {
    let at = 0;
    for (let left = numbers.next(); left > 0; --left) {
      row[cells] = at += numbers.next();
      reads[cells] = numbers.next();
      writes[cells++] = numbers.next();
      ++at;
    }
    begin[column + 1] = cells;
  }
  return Object.assign(picture, {begin, row, reads, writes});
};

const readSingles = numbers => {
  const singles = {first: numbers.next(), requests: numbers.next(), per: 1, single: true};
  const count = singles.requests;
  const address = numbers.column(count, true);
  const bytes = sums(numbers.column(count, true));
  const kind = numbers.column(count, false);
  const start = sums(numbers.column(count, true));
  const latency = numbers.column(count, false);
  let end = 0;
  for (let i = 0; i < count; ++i) {
    address[i] += end;
    end = address[i] + bytes[i];
  }
  return Object.assign(singles, {address, bytes, kind, start, latency});
};

const readTrace = bytes => {
  const numbers = new Numbers(bytes);
  if (numbers.next() !== 2) throw new Error('the page\'s data are of another version');
  const trace = {first: numbers.next(), requests: numbers.next(), addresses: numbers.next()};
  trace.files = Array.from({length: numbers.next()},
    () => ({base: numbers.next(), bytes: numbers.next(), low: numbers.next(), name: ''}));
  trace.processes = Array.from({length: numbers.next()}, () => numbers.signed());
  const bins = numbers.next();
  const values = () => Float64Array.from({length: bins}, () => numbers.next());
  trace.time = {bins, start: numbers.next() * 100, ns: numbers.next() / 1000};
  for (const name of ['read', 'written', 'seeks', 'syncs', 'readMedian', 'read99', 'readMax', 'writeMedian', 'write99', 'writeMax', 'syncMedian', 'sync99', 'syncMax']) {
    trace.time[name] = values();
  }
  trace.startsPer = numbers.next();
  trace.starts = sums(Float64Array.from({length: numbers.next()}, () => numbers.signed())).map(t => t * 100 - trace.time.start);
  trace.syncs = {per: numbers.next(), cells: []};
  for (let left = numbers.next(), first = 0; left > 0; --left) {
    first += numbers.next() * trace.syncs.per;
    trace.syncs.cells.push({first, count: numbers.next(), slowest: numbers.next() * 100});
  }
  const layers = Array.from({length: numbers.next()}, () => readPicture(numbers));
  const singles = Array.from({length: numbers.next()}, () => readSingles(numbers));
  trace.singles = singles.slice().sort((a, b) => a.first - b.first);
  // Coarse layers come first, so that finer ones replace them.
  trace.layers = layers.concat(singles).sort((a, b) => b.per - a.per);
  return trace;
};

const unpacked = async text => {
  const packed = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(plain).arrayBuffer());
};

// Returns when a request began, in ns since the trace's first. Between known times it interpolates.
const timeOf = (trace, order) => {
  for (const s of trace.singles) {
    if (order >= s.first && order < s.first + s.requests) return s.start[Math.floor(order - s.first)] * 100;
  }
  const at = (order - trace.first) / trace.startsPer, i = clamp(Math.floor(at), 0, trace.starts.length - 1);
  const from = trace.starts[i];
  const to = i + 1 < trace.starts.length ? trace.starts[i + 1] : trace.time.bins * trace.time.ns;
  return from + (to - from) * clamp(at - i, 0, 1);
};

// --- The base of all plots ----------------------------------------------------------------------

let colours = {};
const rgb = text => {
  const n = parseInt(text.slice(1), 16);
  return [n >> 16, n >> 8 & 255, n & 255];
};
const readColours = () => {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['sheet', 'ink', 'quiet', 'line', 'read', 'write', 'sync', 'mark', 'bar']) {
    colours[name] = style.getPropertyValue('--' + name).trim();
  }
};

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

const plots = [];

// A canvas with axes. Its view is a horizontal range (and perhaps a vertical one) within limits.
class Plot {
  constructor(canvas, label) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.setAttribute('aria-label', label);
    this.pointers = new Map();
    this.wanted = false;
    canvas.addEventListener('keydown', e => this.onKey(e));
    canvas.addEventListener('wheel', e => this.onWheel(e), {passive: false});
    canvas.addEventListener('pointerdown', e => this.onDown(e));
    canvas.addEventListener('pointermove', e => this.onMove(e));
    canvas.addEventListener('pointerup', e => this.onUp(e));
    canvas.addEventListener('pointercancel', e => this.onUp(e));
    canvas.addEventListener('pointerleave', () => { if (!this.drag) this.hover(null); });
    canvas.addEventListener('dblclick', () => this.whole());
    new ResizeObserver(() => this.redraw()).observe(canvas);
    plots.push(this);
  }
  redraw() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => { this.wanted = false; this.paint(); });
  }
  // Measures in pixels of the device. The plot's area is the canvas without its margins.
  measure() {
    const box = this.canvas.getBoundingClientRect();
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(this.canvas.clientWidth * scale));
    const height = Math.max(1, Math.round(this.canvas.clientHeight * scale));
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
    }
    this.scale = scale;
    this.left = Math.round(64 * scale);
    this.top = Math.round(8 * scale);
    this.width = Math.max(1, width - this.left - Math.round(10 * scale));
    this.height = Math.max(1, height - this.top - Math.round(24 * scale));
    return box.width > 0;
  }
  paint() {
    if (!this.measure()) return;
    const c = this.context;
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    c.font = `${Math.round(11.5 * this.scale)}px system-ui, sans-serif`;
    c.textBaseline = 'middle';
    this.draw(c);
    const {low, high} = this.x;
    this.canvas.dataset.view = `${low},${high}`;
    this.canvas.dataset.draws = Number(this.canvas.dataset.draws || 0) + 1;
  }
  xOf(value) { return (value - this.x.low) / (this.x.high - this.x.low) * this.width; }
  valueAt(px) { return this.x.low + px / this.width * (this.x.high - this.x.low); }

  // Returns the range moved into its limits, and no narrower than `limits.least`.
  static within(low, high, limits) {
    const size = clamp(high - low, Math.min(limits.least, limits.high - limits.low), limits.high - limits.low);
    const middle = (low + high) / 2;
    low = clamp(middle - size / 2, limits.low, limits.high - size);
    return {low, high: low + size, limits};
  }
  setX(low, high) { this.x = Plot.within(low, high, this.x.limits); this.changed(); }
  zoomX(factor, at = (this.x.low + this.x.high) / 2) {
    this.setX(at + (this.x.low - at) * factor, at + (this.x.high - at) * factor);
  }
  panX(share) {
    const by = (this.x.high - this.x.low) * share;
    const {limits} = this.x, size = this.x.high - this.x.low;
    const low = clamp(this.x.low + by, limits.low, limits.high - size);
    this.setX(low, low + size);
  }
  zoomY() {}
  panY() {}
  whole() { this.setX(this.x.limits.low, this.x.limits.high); }
  changed() { this.redraw(); }
  hover() {}

  position(e) {
    const box = this.canvas.getBoundingClientRect();
    return {x: (e.clientX - box.left - this.canvas.clientLeft) * this.scale - this.left,
            y: (e.clientY - box.top - this.canvas.clientTop) * this.scale - this.top};
  }
  onKey(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const {limits} = this.x, size = this.x.high - this.x.low;
    const actions = {
      ArrowLeft: () => this.panX(-0.15), ArrowRight: () => this.panX(0.15),
      PageUp: () => this.panX(-0.9), PageDown: () => this.panX(0.9),
      Home: () => this.setX(limits.low, limits.low + size), End: () => this.setX(limits.high - size, limits.high),
      '+': () => this.zoomX(0.5), '=': () => this.zoomX(0.5), '-': () => this.zoomX(2), '_': () => this.zoomX(2),
      '0': () => this.whole(), Escape: () => this.whole(),
      ...this.keys,
    };
    const action = actions[e.key];
    if (!action) return;
    e.preventDefault();
    action();
  }
  onWheel(e) {
    // The wheel scrolls the page, unless the plot has the focus.
    if (!e.ctrlKey && document.activeElement !== this.canvas) return;
    e.preventDefault();
    const at = this.position(e), factor = Math.exp(clamp(e.deltaY || e.deltaX, -300, 300) * 0.002);
    if (e.shiftKey) this.zoomY(factor, at.y); else this.zoomX(factor, this.valueAt(at.x));
  }
  onDown(e) {
    if (e.pointerType === 'mouse' && e.button !== 0) return;
    this.canvas.setPointerCapture(e.pointerId);
    const at = this.position(e);
    this.pointers.set(e.pointerId, at);
    this.drag = {from: at, to: at, x: this.x, y: this.y, pan: e.shiftKey || e.pointerType === 'touch', two: null};
    if (this.pointers.size === 2) {
      const [a, b] = this.pointers.values();
      this.drag.two = {distance: Math.max(1, Math.abs(a.x - b.x)), value: this.valueAt((a.x + b.x) / 2)};
    }
  }
  onMove(e) {
    const at = this.position(e);
    if (!this.drag || !this.pointers.has(e.pointerId)) { this.hover(at); return; }
    this.pointers.set(e.pointerId, at);
    const d = this.drag;
    d.to = at;
    if (d.two && this.pointers.size === 2) {
      const [a, b] = this.pointers.values();
      const size = (d.x.high - d.x.low) * d.two.distance / Math.max(1, Math.abs(a.x - b.x));
      const low = d.two.value - (a.x + b.x) / 2 / this.width * size;
      this.setX(low, low + size);
    } else if (d.pan && !d.two) {
      const size = d.x.high - d.x.low;
      const low = clamp(d.x.low - (at.x - d.from.x) / this.width * size, d.x.limits.low, d.x.limits.high - size);
      this.setX(low, low + size);
    } else {
      this.redraw();
    }
  }
  onUp(e) {
    const d = this.drag;
    this.pointers.delete(e.pointerId);
    if (!d || this.pointers.size > 0) return;
    this.drag = null;
    const far = 6 * this.scale;
    if (e.type === 'pointerup' && !d.pan && !d.two && Math.abs(d.to.x - d.from.x) > far) {
      this.select(d.from, d.to);
    } else if (e.type === 'pointerup' && Math.abs(d.to.x - d.from.x) <= far) {
      this.hover(d.to);
    }
    this.redraw();
  }
  select(from, to) {
    const [a, b] = [this.valueAt(clamp(from.x, 0, this.width)), this.valueAt(clamp(to.x, 0, this.width))];
    this.setX(Math.min(a, b), Math.max(a, b));
  }
  drawSelection(c, tall) {
    const d = this.drag;
    if (!d || d.pan || d.two || Math.abs(d.to.x - d.from.x) < 3 * this.scale) return;
    const x0 = clamp(Math.min(d.from.x, d.to.x), 0, this.width), x1 = clamp(Math.max(d.from.x, d.to.x), 0, this.width);
    const flat = tall || Math.abs(d.to.y - d.from.y) < 16 * this.scale;
    const y0 = flat ? 0 : clamp(Math.min(d.from.y, d.to.y), 0, this.height);
    const y1 = flat ? this.height : clamp(Math.max(d.from.y, d.to.y), 0, this.height);
    c.globalAlpha = 0.16;
    c.fillStyle = colours.ink;
    c.fillRect(this.left + x0, this.top + y0, x1 - x0, y1 - y0);
    c.globalAlpha = 1;
  }
  drawXAxis(c, textOf, whole) {
    const range = this.x.high - this.x.low;
    let step = niceStep(range, this.width / (95 * this.scale));
    if (whole) step = Math.max(1, step);
    const y = this.top + this.height;
    c.textAlign = 'center';
    for (let v = Math.ceil(this.x.low / step) * step; v <= this.x.high; v += step) {
      const x = Math.round(this.left + this.xOf(v)) + 0.5, text = textOf(v, step);
      c.fillStyle = colours.line;
      c.fillRect(x, y, 1, 4 * this.scale);
      const half = c.measureText(text).width / 2;
      if (x + half > this.canvas.width || x - half < this.left - 30 * this.scale) continue;
      c.fillStyle = colours.quiet;
      c.fillText(text, x, y + 14 * this.scale);
    }
  }
  frame(c) {
    c.strokeStyle = colours.line;
    c.lineWidth = 1;
    c.strokeRect(this.left - 0.5, this.top - 0.5, this.width + 1, this.height + 1);
  }
}

// --- Places of requests -------------------------------------------------------------------------

class OrderPlot extends Plot {
  constructor(canvas, trace, parts) {
    super(canvas, 'Requests in their order, each at its address. Arrow keys move, plus and minus zoom, 0 shows all; comma and full stop go from request to request.');
    this.trace = trace;
    this.parts = parts;
    const end = trace.first + trace.requests;
    this.x = {low: trace.first, high: end, limits: {low: trace.first, high: end, least: 8}};
    this.y = {low: 0, high: trace.addresses, limits: {low: 0, high: trace.addresses, least: 512}};
    this.cursor = null;
    this.lane = trace.syncs.cells.length > 0 ? 14 : 0;  // height of the strip of syncs above the files
    this.keys = {
      ArrowUp: () => this.panY(0.15), ArrowDown: () => this.panY(-0.15),
      ']': () => this.zoomY(0.5), '[': () => this.zoomY(2),
      n: () => this.toPlace(1), p: () => this.toPlace(-1),
      '.': () => this.step(1), ',': () => this.step(-1),
    };
  }
  measure() {
    const visible = super.measure(), lane = Math.round(this.lane * this.scale);
    this.top += lane;
    this.height = Math.max(1, this.height - lane);
    return visible;
  }
  setY(low, high) { this.y = Plot.within(low, high, this.y.limits); this.changed(); }
  zoomY(factor, py = this.height / 2) {
    const at = this.addressAt(py);
    this.setY(at + (this.y.low - at) * factor, at + (this.y.high - at) * factor);
  }
  panY(share) {
    const size = this.y.high - this.y.low, {limits} = this.y;
    const low = clamp(this.y.low + size * share, limits.low, limits.high - size);
    this.setY(low, low + size);
  }
  whole() {
    this.y = {...this.y, low: this.y.limits.low, high: this.y.limits.high};
    super.whole();
  }
  showFile(index) {
    const file = this.trace.files[index], room = file.bytes * 0.02;
    this.setY(file.base - room, file.base + file.bytes + room);
    this.canvas.scrollIntoView({block: 'center'});
    this.canvas.focus({preventScroll: true});
  }
  select(from, to) {
    if (Math.abs(to.y - from.y) >= 16 * this.scale) {
      const [a, b] = [this.addressAt(clamp(from.y, 0, this.height)), this.addressAt(clamp(to.y, 0, this.height))];
      this.y = Plot.within(Math.min(a, b), Math.max(a, b), this.y.limits);
    }
    super.select(from, to);
  }
  yOf(address) { return this.height - (address - this.y.low) / (this.y.high - this.y.low) * this.height; }
  addressAt(py) { return this.y.low + (this.height - py) / this.height * (this.y.high - this.y.low); }

  // Goes to the next close-up with single requests to the right or left of the view's middle.
  toPlace(way) {
    const middle = (this.x.low + this.x.high) / 2, tolerance = 1;
    const singles = way > 0 ? this.trace.singles : this.trace.singles.slice().reverse();
    const inside = s => Math.abs(s.first + s.requests / 2 - middle) <= Math.max(tolerance, s.requests * 0.01) &&
      this.x.high - this.x.low <= s.requests * 1.01;
    const next = singles.find(s => !inside(s) && way * (s.first + s.requests / 2 - middle) > tolerance) || singles[0];
    if (next) this.setX(next.first, next.first + next.requests);
  }
  layerAt(order) {
    let found = null;
    for (const layer of this.trace.layers) {
      if (order >= layer.first && order < layer.first + layer.requests) found = layer;
    }
    return found;
  }
  step(way) {
    const {low, high} = this.x;
    let order = this.cursor === null || this.cursor < low || this.cursor >= high
      ? Math.floor((low + high) / 2) : Math.floor(this.cursor) + way * (this.layerAt(this.cursor)?.per || 1);
    order = clamp(order, this.x.limits.low, this.x.limits.high - 1);
    if (order < low || order >= high) this.panX(way * 0.5);
    this.cursor = order;
    const layer = this.layerAt(order);
    const address = layer?.single ? layer.address[order - layer.first] : (this.y.low + this.y.high) / 2;
    this.tell(order, address);
    this.redraw();
  }
  changed() {
    this.parts.view.textContent = this.describeView();
    this.parts.onView(this.x);
    super.changed();
  }
  describeView() {
    const {low, high} = this.x, first = Math.floor(low), last = Math.min(Math.ceil(high), this.x.limits.high) - 1;
    return `Requests ${grouped(first)} to ${grouped(last)} of ${grouped(this.trace.requests)}`;
  }
  hover(at) {
    const inside = at && at.x >= 0 && at.x <= this.width && at.y <= this.height;
    if (inside && at.y < 0 && at.y >= -this.lane * this.scale) {
      this.cursor = this.valueAt(at.x);
      this.tellSync(this.cursor);
    } else if (!inside || at.y < 0) {
      this.cursor = null;
    } else {
      this.cursor = this.valueAt(at.x);
      this.tell(this.cursor, this.addressAt(at.y));
    }
    this.parts.onCursor(this.cursor);
    this.redraw();
  }
  placeText(address) {
    const file = this.fileAt(address);
    return file ? `${bytesText(address - file.base + file.low)} of ${file.name}` : 'a file below the table\'s end';
  }
  fileAt(address) {
    return this.trace.files.find(f => address >= f.base && address < f.base + f.bytes);
  }
  tell(order, address) {
    const layer = this.layerAt(order);
    if (!layer) return;
    const out = this.parts.readout;
    const when = 'at ' + nsText(timeOf(this.trace, order));
    if (layer.single) {
      const i = Math.floor(order - layer.first), kind = layer.kind[i];
      const process = this.trace.processes[Math.floor(kind / 4)];
      out.textContent = `Request ${grouped(layer.first + i)}: ${kind % 2 ? 'write' : 'read'} of ${bytesText(layer.bytes[i])} at ` +
        `${this.placeText(layer.address[i])}${kind & 2 ? ', after a seek' : ''} · process ${process ?? 'unknown'} · took ` +
        `${nsText(layer.latency[i] * 100)}, ${when}`;
      return;
    }
    const column = Math.floor((order - layer.first) / layer.per);
    const first = layer.first + column * layer.per;
    const count = Math.min(layer.per, layer.first + layer.requests - first);
    const row = Math.floor(address / this.trace.addresses * layer.rows);
    let reads = 0, writes = 0;
    for (let i = layer.begin[column]; i < layer.begin[column + 1]; ++i) {
      if (layer.row[i] === row) { reads = layer.reads[i]; writes = layer.writes[i]; }
    }
    out.textContent = `Requests ${grouped(first)} to ${grouped(first + count - 1)}, ${when}: around ${this.placeText(address)} ` +
      `${grouped(reads)} reads, ${grouped(writes)} writes. This is as fine as the page has it here` +
      `; one by one: penstock report --requests ${first}..${first + count} (or n: the next place that has them)`;
  }

  // Describes the sync that is next to an order, if one is near.
  tellSync(order) {
    const {per, cells} = this.trace.syncs, near = 6 * this.scale * (this.x.high - this.x.low) / this.width;
    const far = s => Math.max(s.first - order, order - s.first - (per - 1), 0);
    let found = cells[0];
    for (const s of cells) if (far(s) < far(found)) found = s;
    if (far(found) > near) return;
    const place = per === 1 ? `before request ${grouped(found.first)}` : `among requests ${grouped(found.first)} to ${grouped(found.first + per - 1)}`;
    this.parts.readout.textContent = `${found.count === 1 ? 'A sync' : grouped(found.count) + ' syncs'} ${place}` +
      (found.slowest > 0 ? `, ${found.count === 1 ? 'which took' : 'the slowest of'} ${nsText(found.slowest)}` : '');
  }

  draw(c) {
    const {width, height} = this;
    const pick = new Int16Array(width).fill(-1);
    // Each pixel shows the coarsest layer that has one column per pixel, or else the finest one.
    const perPixel = (this.x.high - this.x.low) / width;
    this.trace.layers.forEach((layer, index) => {
      const from = clamp(Math.round(this.xOf(layer.first)), 0, width);
      const to = clamp(Math.round(this.xOf(layer.first + layer.requests)), 0, width);
      for (let x = from; x < to; ++x) {
        if (pick[x] < 0 || this.trace.layers[pick[x]].per > perPixel) pick[x] = index;
      }
    });
    const cells = {reads: new Float32Array(width * height), writes: new Float32Array(width * height), weight: new Float32Array(width)};
    const sparse = [];
    for (let from = 0; from < width;) {
      let to = from + 1;
      while (to < width && pick[to] === pick[from]) ++to;
      const layer = this.trace.layers[pick[from]];
      if (layer?.single && this.x.high - this.x.low < width / (3 * this.scale)) sparse.push([layer, from, to]);
      else if (layer?.single) this.addSingles(cells, layer, from, to);
      else if (layer) this.addPicture(cells, layer, from, to);
      from = to;
    }
    this.colour(c, cells);
    this.drawFiles(c);
    for (const [layer, from, to] of sparse) this.drawSingles(c, layer, from, to);
    this.drawSyncs(c);
    this.frame(c);
    this.drawXAxis(c, (v, step) => step >= 1e5 ? trimmed(countText(v)) : grouped(v), true);
    if (this.cursor !== null) {
      c.globalAlpha = 0.5;
      c.fillStyle = colours.mark;
      const x = this.xOf(Math.floor(this.cursor) + 0.5);
      if (x >= 0 && x <= width) c.fillRect(this.left + Math.round(x), this.top, this.scale, height);
      c.globalAlpha = 1;
    }
    this.drawSelection(c, false);
  }
  addCell(cells, px0, px1, low, high, reads, writes) {
    // A cell is at least 1.5 CSS pixels high: a line of one pixel is hard to see.
    const thick = Math.ceil(1.5 * this.scale);
    let y0 = Math.floor(this.yOf(high)), y1 = Math.ceil(this.yOf(low));
    if (y1 - y0 < thick) y1 = y0 + thick;
    y0 = Math.max(y0, 0);
    y1 = Math.min(y1, this.height);
    for (let y = y0; y < y1; ++y) {
      const line = y * this.width;
      for (let x = px0; x < px1; ++x) {
        cells.reads[line + x] += reads;
        cells.writes[line + x] += writes;
      }
    }
  }
  addPicture(cells, layer, from, to) {
    const rowBytes = this.trace.addresses / layer.rows;
    const first = clamp(Math.floor((this.valueAt(from) - layer.first) / layer.per), 0, layer.columns - 1);
    const last = clamp(Math.floor((this.valueAt(to) - layer.first) / layer.per), 0, layer.columns - 1);
    for (let column = first; column <= last; ++column) {
      const begin = layer.first + column * layer.per;
      const end = Math.min(begin + layer.per, layer.first + layer.requests);
      const px0 = clamp(Math.floor(this.xOf(begin)), from, to - 1);
      const px1 = clamp(Math.max(px0 + 1, Math.floor(this.xOf(end))), from, to);
      for (let x = px0; x < px1; ++x) cells.weight[x] += end - begin;
      for (let i = layer.begin[column]; i < layer.begin[column + 1]; ++i) {
        const low = layer.row[i] * rowBytes;
        if (low > this.y.high || low + rowBytes < this.y.low) continue;
        this.addCell(cells, px0, px1, low, low + rowBytes, layer.reads[i], layer.writes[i]);
      }
    }
  }
  addSingles(cells, layer, from, to) {
    const first = clamp(Math.floor(this.valueAt(from) - layer.first), 0, layer.requests - 1);
    const last = clamp(Math.ceil(this.valueAt(to) - layer.first), 0, layer.requests - 1);
    for (let i = first; i <= last; ++i) {
      const px0 = clamp(Math.floor(this.xOf(layer.first + i)), from, to - 1);
      const px1 = clamp(Math.max(px0 + 1, Math.floor(this.xOf(layer.first + i + 1))), from, to);
      for (let x = px0; x < px1; ++x) cells.weight[x] += 1;
      const low = layer.address[i], high = low + layer.bytes[i];
      if (low > this.y.high || high < this.y.low) continue;
      const write = layer.kind[i] % 2;
      this.addCell(cells, px0, px1, low, high, 1 - write, write);
    }
  }
  // Draws the strip of syncs, each between the two requests beside it. A few have lines through the picture.
  drawSyncs(c) {
    if (!this.lane) return;
    const {per, cells} = this.trace.syncs, lane = this.lane * this.scale, least = 1.5 * this.scale;
    const inView = cells.filter(s => s.first <= this.x.high && s.first + per > this.x.low);
    c.textAlign = 'right';
    c.fillStyle = colours.quiet;
    c.fillText('syncs', this.left - 7 * this.scale, this.top - lane / 2);
    c.save();
    c.beginPath();
    c.rect(this.left - least, this.top - lane, this.width + 2 * least, this.height + lane);
    c.clip();
    c.fillStyle = colours.sync;
    for (const s of inView) {
      const x = this.left + this.xOf(s.first), wide = per === 1 ? 0 : this.xOf(s.first + per) - this.xOf(s.first);
      c.fillRect(x - (per === 1 ? least / 2 : 0), this.top - lane + 2 * this.scale, Math.max(wide, least), lane - 4 * this.scale);
    }
    if (per === 1 && inView.length * 24 * this.scale < this.width) {
      c.globalAlpha = 0.35;
      for (const s of inView) c.fillRect(this.left + this.xOf(s.first) - this.scale / 2, this.top, this.scale, this.height);
    }
    c.restore();
    this.canvas.dataset.syncs = inView.reduce((sum, s) => sum + s.count, 0);
  }
  // Draws requests that are few enough to be seen apart: a bar for each, and a thin line for each
  // seek, from the end of a request to the begin of the next.
  drawSingles(c, layer, from, to) {
    c.save();
    c.beginPath();
    c.rect(this.left + from, this.top, to - from, this.height);
    c.clip();
    c.translate(this.left, this.top);
    const first = clamp(Math.floor(this.valueAt(from) - layer.first), 0, layer.requests - 1);
    const last = clamp(Math.ceil(this.valueAt(to) - layer.first), 0, layer.requests - 1);
    const room = this.width / (this.x.high - this.x.low), gap = room > 8 ? room * 0.15 : 0;
    c.strokeStyle = colours.quiet;
    c.globalAlpha = 0.45;
    c.lineWidth = this.scale;
    c.beginPath();
    for (let i = Math.max(1, first); i <= last; ++i) {
      if (!(layer.kind[i] & 2)) continue;
      const x = this.xOf(layer.first + i);
      c.moveTo(x - gap / 2, this.yOf(layer.address[i - 1] + layer.bytes[i - 1]));
      c.lineTo(x + gap / 2, this.yOf(layer.address[i]));
    }
    c.stroke();
    c.globalAlpha = 1;
    for (let i = first; i <= last; ++i) {
      const x = this.xOf(layer.first + i);
      const top = this.yOf(layer.address[i] + layer.bytes[i]), bottom = this.yOf(layer.address[i]);
      const tall = Math.max(bottom - top, 3 * this.scale);
      c.fillStyle = layer.kind[i] % 2 ? colours.write : colours.read;
      c.fillRect(x + gap / 2, Math.min(top, bottom - tall), Math.max(room - gap, this.scale), tall);
    }
    c.restore();
  }
  // The strength of a colour is the logarithm of the share of the pixel's requests that touched it:
  // all of them is full colour, one in a thousand is still visible.
  colour(c, cells) {
    const image = c.createImageData(this.width, this.height), pixels = image.data;
    const read = rgb(colours.read), write = rgb(colours.write);
    for (let y = 0, at = 0; y < this.height; ++y) {
      for (let x = 0; x < this.width; ++x, ++at) {
        const reads = cells.reads[at], writes = cells.writes[at], all = reads + writes;
        if (all === 0) continue;
        const share = Math.min(1, all / cells.weight[x]);
        const strength = clamp(1 + Math.log10(share) / 3.2, 0.3, 1), toWrite = writes / all;
        for (let i = 0; i < 3; ++i) pixels[at * 4 + i] = read[i] + (write[i] - read[i]) * toWrite;
        pixels[at * 4 + 3] = 255 * strength;
      }
    }
    c.putImageData(image, this.left, this.top);
  }
  // Draws each file's name at its upper end, and offsets in the file in its part of the left margin.
  // Files that are too thin for that share a name, their common beginning with their number and size.
  drawFiles(c) {
    const gap = 15 * this.scale;
    let labelled = Infinity, thin = [];
    const labels = [], marked = [];
    const name = (text, top) => {
      if (labelled - top < gap) return false;
      labelled = top;
      this.drawName(c, text, this.top + top + 9 * this.scale);
      labels.push(text);
      return true;
    };
    const share = () => {
      if (thin.length === 0) return;
      const first = thin[0], last = thin[thin.length - 1];
      const top = clamp(this.yOf(last.base + last.bytes), 0, this.height), bottom = clamp(this.yOf(first.base), 0, this.height);
      if (bottom - top >= gap && name(thin.length === 1 ? first.name : this.sharedName(thin), top)) {
        c.fillStyle = colours.line;
        for (const y of [top, bottom]) c.fillRect(this.left, this.top + Math.round(y), this.width, 1);
      }
      thin = [];
    };
    const inView = this.trace.files.filter(f => f.base < this.y.high && f.base + f.bytes > this.y.low).sort((a, b) => a.base - b.base);
    for (const file of inView) {
      const bottom = this.yOf(file.base), top = this.yOf(file.base + file.bytes);
      const shownTop = Math.max(top, 0), shownBottom = Math.min(bottom, this.height);
      if (bottom - top > 4 * this.scale && bottom <= this.height && file.base > 0) {
        c.fillStyle = colours.line;
        c.fillRect(this.left, this.top + Math.round(bottom), this.width, 1);
      }
      if (shownBottom - shownTop >= gap) {
        share();
        name(file.name, shownTop);
        if (this.drawOffsets(c, file, shownTop, shownBottom)) marked.push(file.name);
        continue;
      }
      thin.push(file);
      // A shared name gets the height of three lines: denser names would hide the picture.
      if (this.yOf(thin[0].base) - top >= 3 * gap) share();
    }
    share();
    this.canvas.dataset.labels = JSON.stringify(labels);
    this.canvas.dataset.marked = JSON.stringify(marked);
  }
  sharedName(files) {
    const names = files.map(f => f.name);
    let common = names[0];
    for (const other of names) while (!other.startsWith(common)) common = common.slice(0, -1);
    return `${common}… (${grouped(files.length)} files, ${bytesText(files.reduce((sum, f) => sum + f.bytes, 0))})`;
  }
  drawName(c, name, y) {
    const room = this.width * 0.7;
    let text = name;
    for (let cut = 1; c.measureText(text).width > room && cut < name.length; cut += 2) text = '…' + name.slice(cut);
    c.textAlign = 'left';
    c.lineJoin = 'round';
    c.lineWidth = 4 * this.scale;
    c.strokeStyle = colours.sheet;
    c.globalAlpha = 0.85;
    c.strokeText(text, this.left + 6 * this.scale, y);
    c.globalAlpha = 1;
    c.fillStyle = colours.ink;
    c.fillText(text, this.left + 6 * this.scale, y);
  }
  // Draws marks at round offsets of the file, in its part of the left margin. Returns whether it has room.
  drawOffsets(c, file, top, bottom) {
    const room = bottom - top;
    if (room < 22 * this.scale) return false;
    const low = this.addressAt(bottom) - file.base + file.low, high = this.addressAt(top) - file.base + file.low;
    const step = Math.max(512, niceStep(high - low, room / (34 * this.scale), 2));
    c.textAlign = 'right';
    for (let offset = Math.ceil(low / step) * step; offset <= high; offset += step) {
      const y = this.yOf(file.base + offset - file.low);
      c.fillStyle = colours.line;
      c.fillRect(this.left - 4 * this.scale, this.top + Math.round(y), 4 * this.scale, 1);
      const label = this.top + clamp(y, 6 * this.scale, this.height - 6 * this.scale);
      if (y > bottom - 3 * this.scale && bottom < this.height - 1) continue;  // the file below ends there
      c.fillStyle = colours.quiet;
      c.fillText(offset === 0 ? '0' : trimmed(bytesText(offset)), this.left - 7 * this.scale, label);
    }
    return true;
  }
}

// --- Over time ----------------------------------------------------------------------------------

class TimePlot extends Plot {
  constructor(canvas, trace, group, {label, curves, textOf, logarithmic, scale}) {
    super(canvas, `${label} over time. Arrow keys move, plus and minus zoom, 0 shows all.`);
    this.trace = trace;
    this.group = group;
    this.curves = curves;
    this.textOf = textOf;
    this.logarithmic = logarithmic;
    this.shared = scale;
    this.x = {low: 0, high: group.end, limits: {low: 0, high: group.end, least: 8 * trace.time.ns}};
    group.plots.push(this);
    for (const curve of curves) {
      for (const v of curve.values) {
        if (v > scale.most) scale.most = v;
        if (v > 0 && v < scale.least) scale.least = v;
      }
    }
  }
  changed() {
    for (const plot of this.group.plots) { plot.x = this.x; plot.redraw(); }
  }
  hover(at) {
    const inside = at && at.x >= 0 && at.x <= this.width;
    this.group.cursor = inside ? this.valueAt(at.x) : null;
    this.group.tell(this.group.cursor);
    for (const plot of this.group.plots) plot.redraw();
  }
  levelOf(v) {
    if (!this.logarithmic) return this.height * (1 - v / (this.shared.most * 1.05 || 1));
    const low = Math.log10(this.shared.least) - 0.1, high = Math.log10(this.shared.most) + 0.1;
    return this.height * (1 - (Math.log10(v) - low) / Math.max(0.2, high - low));
  }
  draw(c) {
    const {time} = this.trace, {height, width} = this;
    this.drawYAxis(c);
    const view = this.group.orders;
    if (view) {
      const from = clamp(this.xOf(view.low), 0, width), to = clamp(this.xOf(view.high), 0, width);
      c.fillStyle = colours.bar;
      c.globalAlpha = 0.6;
      c.fillRect(this.left + from, this.top, Math.max(to - from, this.scale), height);
      c.globalAlpha = 1;
    }
    c.save();
    c.beginPath();
    c.rect(this.left, this.top, width, height);
    c.clip();
    c.translate(this.left, this.top);
    // Bins closer than three pixels are joined: alternating values would look like a solid block.
    const join = Math.max(1, Math.ceil(3 * this.scale * (this.x.high - this.x.low) / time.ns / width));
    const first = clamp(Math.floor(this.x.low / time.ns / join) - 1, 0, Math.ceil(time.bins / join) - 1);
    const last = clamp(Math.ceil(this.x.high / time.ns / join) + 1, 0, Math.ceil(time.bins / join) - 1);
    for (const curve of this.curves) {
      c.strokeStyle = c.fillStyle = colours[curve.colour];
      c.lineWidth = (curve.thin ? 1 : 1.5) * this.scale;
      c.setLineDash(curve.thin ? [3 * this.scale, 2 * this.scale] : []);
      c.lineJoin = 'round';
      this.drawCurve(c, curve, first, last, join);
    }
    c.restore();
    if (this.group.cursor !== null) {
      c.fillStyle = colours.mark;
      c.globalAlpha = 0.6;
      const x = this.xOf(this.group.cursor);
      if (x >= 0 && x <= width) c.fillRect(this.left + Math.round(x), this.top, this.scale, height);
      c.globalAlpha = 1;
    }
    this.frame(c);
    this.drawXAxis(c, (v, step) => v === 0 ? '0' : trimmed(step >= 1e9 ? scaled(v, 1000, ['ns', 'µs', 'ms', 's']) : nsText(v)), false);
    this.drawSelection(c, true);
  }
  // Draws a line with gaps for missing values. A single value is a short line.
  drawCurve(c, curve, first, last, join) {
    const {bins} = this.trace.time, ns = this.trace.time.ns * join, gap = v => this.logarithmic && v === 0;
    const valueOf = i => {
      let sum = 0, most = 0, count = 0;
      for (let k = i * join; k < Math.min((i + 1) * join, bins); ++k) {
        const v = curve.values[k];
        if (gap(v)) continue;
        sum += v;
        most = Math.max(most, v);
        ++count;
      }
      return count === 0 ? 0 : curve.largest ? most : sum / count;
    };
    c.beginPath();
    let drawing = false;
    for (let i = first; i <= last; ++i) {
      const v = valueOf(i);
      if (gap(v)) { drawing = false; continue; }
      const x = this.xOf((i + 0.5) * ns), y = this.levelOf(v);
      const alone = !drawing && (i === last || gap(valueOf(i + 1))), half = alone ? 1.5 * this.scale : 0;
      if (drawing) c.lineTo(x, y);
      else { c.moveTo(x - half, y); c.lineTo(x + half, y); }
      drawing = true;
    }
    c.stroke();
    if (!curve.filled) return;
    c.lineTo(this.xOf((last + 0.5) * ns), this.height);
    c.lineTo(this.xOf((first + 0.5) * ns), this.height);
    c.globalAlpha = 0.13;
    c.fill();
    c.globalAlpha = 1;
  }
  drawYAxis(c) {
    const {most, least} = this.shared, marks = [];
    if (!(most > 0)) return;
    if (this.logarithmic) {
      const few = most / least < 200;
      for (let p = Math.floor(Math.log10(least)); p <= Math.ceil(Math.log10(most)); ++p) {
        for (const digit of few ? [1, 2, 5] : [1]) marks.push(digit * 10 ** p);
      }
    } else {
      const step = niceStep(most, this.height / (32 * this.scale));
      for (let i = 0; i * step <= most * 1.05; ++i) marks.push(i * step);
    }
    c.textAlign = 'right';
    for (const v of marks) {
      const y = this.levelOf(v);
      if (y < 0 || y > this.height) continue;
      c.fillStyle = colours.line;
      c.fillRect(this.left, this.top + Math.round(y), this.width, 1);
      c.fillStyle = colours.quiet;
      c.fillText(v === 0 ? '0' : trimmed(this.textOf(v)), this.left - 7 * this.scale, this.top + clamp(y, 5 * this.scale, this.height - 4 * this.scale));
    }
  }
}

// --- A trace's part of the page -----------------------------------------------------------------

const orderKeys = [
  ['drag', 'zoom into the rectangle'], ['Shift drag', 'move'], ['wheel', 'zoom, once the picture has been clicked (Shift: upwards)'],
  ['+ −', 'zoom'], ['[ ]', 'zoom addresses'], ['← → ↑ ↓', 'move'], ['Home End', 'to the beginning, to the end'],
  ['0', 'all of it'], ['n p', 'next and previous place with single requests'], [', .', 'from request to request'],
];

const buildOrderPlot = (article, trace, onView, onCursor) => {
  const picture = article.querySelector('.picture');
  const canvas = element('canvas');
  const view = element('span', {className: 'view'});
  const readout = element('p', {className: 'readout', textContent: 'Point at the picture, or focus it and press comma or full stop.'});
  readout.setAttribute('aria-live', 'polite');
  const plot = new OrderPlot(canvas, trace, {view, readout, onView, onCursor});
  const button = (text, label, action) => {
    const made = element('button', {type: 'button', textContent: text, title: label});
    made.setAttribute('aria-label', label);
    made.addEventListener('click', action);
    return made;
  };
  const whole = trace.singles.length === 1 && trace.singles[0].requests === trace.requests;
  const bar = element('div', {className: 'bar'},
    button('−', 'Zoom out', () => plot.zoomX(2)), button('+', 'Zoom in', () => plot.zoomX(0.5)),
    button('←', 'Move left', () => plot.panX(-0.5)), button('→', 'Move right', () => plot.panX(0.5)),
    button('All', 'Show all requests', () => plot.whole()));
  if (!whole && trace.singles.length > 0) {
    bar.append(button('Single requests', 'Go to the next place that is there request by request', () => plot.toPlace(1)));
  }
  bar.append(view);
  const keys = element('dl', {className: 'keys'});
  for (const [key, what] of orderKeys) {
    keys.append(element('dt', {}, ...key.split(' ').flatMap((k, i) => [i ? ' ' : '', element('kbd', {textContent: k})])), element('dd', {textContent: what}));
  }
  picture.replaceChildren(bar, canvas, readout, element('details', {}, element('summary', {textContent: 'Keys and gestures'}), keys));
  view.textContent = plot.describeView();
  return plot;
};

const buildTimePlots = (article, trace, scales) => {
  const box = article.querySelector('.curves');
  const level = box.parentElement.querySelector('h2') ? 'h3' : 'h4';  // one below the section's
  const {time} = trace, perSecond = 1e9 / time.ns;
  const readout = element('p', {className: 'readout'});
  const group = {end: scales.end, plots: [], cursor: null, orders: null, tell: t => {
    if (t === null) return;
    const i = clamp(Math.floor(t / time.ns), 0, time.bins - 1);
    const side = (name, bytes, median, high, max) => max[i] === 0 && bytes[i] === 0 ? '' :
      `${name} ${rateText(bytes[i] * perSecond)}` + (max[i] ? ` (${nsText(median[i])} median, ${nsText(high[i])} 99 %, ${nsText(max[i])} slowest)` : '');
    readout.textContent = [`At ${nsText(i * time.ns)}`, side('reading', time.read, time.readMedian, time.read99, time.readMax),
      side('writing', time.written, time.writeMedian, time.write99, time.writeMax),
      `${grouped(time.seeks[i])} seeks in ${nsText(time.ns)}`,
      time.syncs[i] ? `${grouped(time.syncs[i])} syncs (${nsText(time.syncMedian[i])} median, ${nsText(time.syncMax[i])} slowest)` : ''].filter(Boolean).join(' · ');
  }};
  const add = (title, keys, options) => {
    const canvas = element('canvas'), heading = element(level, {textContent: title});
    for (const [kind, text] of keys) heading.append(element('span', {className: 'key ' + kind, textContent: text}));
    box.append(heading, canvas);
    return new TimePlot(canvas, trace, group, {label: title, ...options});
  };
  const both = [['read', 'reads'], ['write', 'writes']], syncs = time.syncs.some(n => n > 0);
  add('Throughput', both, {scale: scales.rate, textOf: rateText, curves: [
    {values: time.read.map(b => b * perSecond), colour: 'read', filled: true},
    {values: time.written.map(b => b * perSecond), colour: 'write', filled: true}]});
  add('Latency: median, and 99 % dashed', syncs ? [...both, ['sync', 'syncs']] : both, {scale: scales.latency, textOf: nsText, logarithmic: true, curves: [
    {values: time.readMedian, colour: 'read'}, {values: time.read99, colour: 'read', thin: true, largest: true},
    {values: time.writeMedian, colour: 'write'}, {values: time.write99, colour: 'write', thin: true, largest: true},
    {values: time.syncMedian, colour: 'sync'}, {values: time.sync99, colour: 'sync', thin: true, largest: true}]});
  add('Seeks a second', [], {scale: scales.seeks, textOf: v => countText(v), curves: [
    {values: time.seeks.map(n => n * perSecond), colour: 'mark', filled: true}]});
  if (syncs) {
    add('Syncs a second', [], {scale: scales.syncs, textOf: v => countText(v), curves: [
      {values: time.syncs.map(n => n * perSecond), colour: 'sync', filled: true}]});
  }
  box.append(readout);
  return group;
};

// Makes the headings of a table of figures buttons that sort by their columns.
const makeSortable = table => {
  const body = table.tBodies[0], headings = [...table.tHead.rows[0].cells];
  if (body.rows.length < 3) return;
  headings.forEach((heading, column) => {
    if (!heading.textContent || !body.rows[0].cells[column]?.dataset.v) return;
    const button = element('button', {type: 'button', textContent: heading.textContent});
    heading.replaceChildren(button);
    button.addEventListener('click', () => {
      const down = heading.getAttribute('aria-sort') !== 'descending';
      headings.forEach(h => h.removeAttribute('aria-sort'));
      heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const value = row => Number(row.cells[column].dataset.v);
      const rows = [...body.rows].filter(r => !r.classList.contains('others'));
      rows.sort((a, b) => (down ? -1 : 1) * (value(a) - value(b)));
      body.prepend(...rows);
    });
  });
};

const buildTrace = (article, trace, scales) => {
  // The rows of the table of files are in the order of the data's files until a user sorts them.
  const names = [...article.querySelectorAll('.files tbody .name')];
  names.forEach((name, i) => { if (trace.files[i]) trace.files[i].name = name.textContent; });

  const group = buildTimePlots(article, trace, scales);
  const plot = buildOrderPlot(article, trace, view => {
    const all = view.low <= trace.first && view.high >= trace.first + trace.requests;
    group.orders = all ? null : {low: timeOf(trace, view.low), high: timeOf(trace, view.high)};
    group.plots.forEach(p => p.redraw());
  }, order => {
    group.cursor = order === null ? null : timeOf(trace, order);
    group.plots.forEach(p => p.redraw());
  });
  names.forEach((name, i) => {
    if (!trace.files[i]?.bytes) return;
    const button = element('button', {type: 'button', textContent: name.textContent, title: 'Show this file in the picture'});
    button.addEventListener('click', () => plot.showFile(i));
    name.replaceChildren(button);
  });
};

const main = async () => {
  readColours();
  const articles = [...document.querySelectorAll('article.trace')].filter(a => document.getElementById('data-' + a.dataset.trace));
  // Traces side by side share their scales, that of the time as well, so that they can be compared.
  const scale = () => ({most: 0, least: Infinity});
  const scales = {rate: scale(), latency: scale(), seeks: scale(), syncs: scale()};
  const read = [];
  const attempt = async (article, action) => {
    try {
      await action();
    } catch (error) {
      article.querySelector('.picture').replaceChildren(element('p', {className: 'empty', textContent: `No picture: ${error.message}.`}));
    }
  };
  for (const article of articles) {
    await attempt(article, async () => {
      if (typeof DecompressionStream === 'undefined') throw new Error('this browser is too old for the pictures; the tables are complete');
      const data = document.getElementById('data-' + article.dataset.trace);
      read.push([article, readTrace(await unpacked(data.textContent))]);
      data.remove();
    });
  }
  scales.end = Math.max(...read.map(([, trace]) => trace.time.bins * trace.time.ns));
  for (const [article, trace] of read) await attempt(article, () => buildTrace(article, trace, scales));
  for (const table of document.querySelectorAll('table.figures')) makeSortable(table);
  const repaint = () => { readColours(); plots.forEach(plot => plot.redraw()); };
  for (const query of ['(prefers-color-scheme: dark)', '(resolution: 1dppx)']) matchMedia(query).addEventListener('change', repaint);
  plots.forEach(plot => plot.paint());
  document.documentElement.dataset.ready = 'yes';
};
main();
})();
