// Draws the window, and only what is in it.

const MOST_ARROWS = 600, MOST_OTHERS = 400, DENSE = 300;
const diagram = document.getElementById("diagram");
const overview = document.getElementById("overview");
const notice = document.getElementById("notice");
let segments = []; // what is drawn, to find what is pointed at: {x1, y1, x2, y2, m, a, p}
const TINTS = 8;
const viewTints = tintViews();

// Views that stand at one time, or follow each other, have different tints, while there are enough.
function tintViews() {
  const spans = new Map();
  for (const { view, begins, ends } of bands) {
    const span = spans.get(view) ?? { view, begins, ends };
    spans.set(view, { view, begins: Math.min(begins, span.begins), ends: Math.max(ends, span.ends) });
  }
  const tints = new Map(), given = [];
  for (const span of [...spans.values()].sort((a, b) => a.begins - b.begins)) {
    const taken = new Set(given.filter((other) => other.ends >= span.begins).map(({ tint }) => tint));
    let tint = given.length % TINTS;
    for (let tried = 0; tried < TINTS && taken.has(tint); tried++) tint = (tint + 1) % TINTS;
    given.push({ ...span, tint });
    tints.set(span.view, tint);
  }
  return tints;
}

function draw() {
  scene.width = Math.max(diagram.clientWidth, 320);
  layOut();
  segments = [];
  const parts = [
    '<defs><pattern id="hatching" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0V7"/></pattern>',
    `<clipPath id="inside"><rect x="${GUTTER}" y="0" width="${scene.width - GUTTER}" height="${scene.height}"/></clipPath></defs>`,
    '<g clip-path="url(#inside)">',
    scene.views ? drawBands() : "", drawLives(), scene.ticks ? drawTickLines() : "",
    drawMessages(), drawOthers(), scene.views ? drawBandNames() : "", drawProofs(), "</g>", drawAxis(), drawLabels(),
  ];
  diagram.setAttribute("height", scene.height);
  diagram.setAttribute("viewBox", `0 0 ${scene.width} ${scene.height}`);
  diagram.classList.toggle("picking", scene.chosen >= 0);
  diagram.innerHTML = parts.join("");
  drawOverview();
}

const n1 = (value) => Math.round(value * 10) / 10;
const inside = (low, high) => high >= scene.from && low <= scene.to;

function drawBands() {
  const parts = [];
  for (const band of bands) {
    const title = `<title>${esc(`${band.transitional ? "the end of view" : "view"} ${band.view}: ${membersOf(band)}`)}</title>`;
    for (const line of scene.rows) {
      const { x1, wide } = placeOf(band, line), half = scene.step / 2;
      if (!wide) continue;
      const box = `x="${n1(x1)}" y="${n1(scene.rowOf[line] - half)}" width="${n1(wide)}" height="${n1(2 * half + 0.5)}"`;
      if (!band.transitional) parts.push(`<rect class="band v${viewTints.get(band.view)}" ${box}>${title}</rect>`);
      else parts.push(`<rect class="band transitional" fill="url(#hatching)" ${box}>${title}</rect>`);
    }
  }
  return parts.join("");
}

// Above the arrows, which would cross them out: each view is named once, on its daemon's first row.
function drawBandNames() {
  const parts = [];
  for (const band of scene.step < 26 ? [] : bands) {
    const line = band.transitional ? undefined : scene.rows.find((row) => placeOf(band, row).wide);
    if (line === undefined) continue;
    const { x1, wide } = placeOf(band, line), text = membersOf(band);
    const room = Math.floor((wide - 8) / 5.6);
    if (room < 5) continue;
    const cut = text.length > room ? `${text.slice(0, room - 1)}…` : text;
    parts.push(`<text class="viewname" x="${n1(x1 + 4)}" y="${n1(scene.rowOf[line] - scene.step / 2 + 10)}">${esc(cut)}</text>`);
  }
  return parts.join("");
}

function membersOf(band) {
  return band.members.map((name) => name.replace(/\/\d+$/, "")).join(" ");
}

// Where a band begins on a row, and how wide it is there; 0 if it is not there, or not in the window.
function placeOf(band, line) {
  if (homeOf(line) !== band.line) return { x1: 0, wide: 0 };
  const from = momentOn(line, band.begins), to = momentOn(line, band.ends);
  if (!inside(from, to)) return { x1: 0, wide: 0 };
  const x1 = Math.max(toX(from), GUTTER), x2 = Math.min(toX(to), scene.width);
  return { x1, wide: Math.max(x2 - x1, band.transitional ? 4 : 1) };
}

function drawLives() {
  return scene.rows.map((line) =>
    `<path class="life ${lines[line].kind}" d="M${GUTTER} ${n1(scene.rowOf[line])}H${scene.width}"/>`).join("");
}

// A tick line joins on all lines the moments at which their clocks reach the same value.
function drawTickLines() {
  const column = points[scene.time];
  let low = Infinity, high = -Infinity;
  for (let p = 0; p < pointCount; p++) {
    if (column[p] < scene.from || column[p] > scene.to) continue;
    low = Math.min(low, points.clock[p]);
    high = Math.max(high, points.clock[p]);
  }
  let every = 1;
  while ((high - low) / every > 60) every *= every % 3 ? 5 : 2;
  const parts = [];
  for (let tick = Math.ceil(low / every) * every; tick <= high; tick += every) {
    const path = scene.rows.map((line) => [tickOn(line, tick), scene.rowOf[line]])
      .filter(([x]) => x !== null).map(([x, y]) => `${n1(x)} ${n1(y)}`);
    if (path.length > 1) parts.push(`<path class="tickline" d="M${path.join("L")}"/>`);
  }
  return parts.join("");
}

// Between the last point with a lower clock and the first with this one or a higher one.
function tickOn(line, tick) {
  if (scene.time === "clock") return toX(tick - 0.5);
  const own = pointsOf[line];
  let low = 0, high = own.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points.clock[own[middle]] < tick) low = middle + 1;
    else high = middle;
  }
  if (low === own.length) return null;
  const next = toX(points.t[own[low]]), before = own[low - 1];
  const previous = low ? toX(points.t[before]) : next - 40;
  const lower = low ? points.clock[before] : 0;
  return previous + ((next - previous) * (tick - lower)) / (points.clock[own[low]] - lower + 1);
}

// ---- messages ----

function drawMessages() {
  const shown = arrivalsInWindow();
  const lit = scene.chosen < 0 ? 0 : shown.filter((a) => isLit(arrivals.message[a])).length;
  const thin = Math.max(1, Math.ceil((shown.length - lit) / MOST_ARROWS));
  const litThin = Math.max(1, Math.ceil(lit / MOST_ARROWS));
  const dim = [], bright = [], sent = new Set();
  for (const a of shown) {
    const m = arrivals.message[a], isBright = isLit(m);
    if (m % (isBright ? litThin : thin) && m !== scene.chosen) continue;
    (isBright ? bright : dim).push(drawArrival(a));
    sent.add(m);
  }
  for (let p = 0; p < pointCount; p++) {
    const m = points.message[p];
    if (points.kind[p] !== SEND || !inside(points[scene.time][p], points[scene.time][p])) continue;
    if (scene.rowOf[points.line[p]] < 0 || !messageShown(m)) continue;
    if (!sent.has(m) && m % (isLit(m) ? litThin : thin)) continue;
    (isLit(m) ? bright : dim).push(drawPoint(p, m, "send"));
  }
  diagram.classList.toggle("dense", segments.length > 3 * DENSE);
  tellThinning(shown.length, Math.max(thin, litThin));
  return dim.join("") + bright.join("");
}

function arrivalsInWindow() {
  const column = points[scene.time], found = [];
  for (let a = 0; a < arrivalCount; a++) {
    const origin = arrivals.origin[a], received = arrivals.received[a];
    const start = waitStart(a), delivered = arrivals.delivered[a];
    const last = delivered >= 0 ? delivered : received >= 0 ? received : start;
    if (last < 0) continue;
    const first = origin >= 0 ? origin : received >= 0 ? received : last;
    const end = delivered < 0 && start >= 0 ? Infinity : column[last];
    if (!inside(column[first], end)) continue;
    if (scene.rowOf[arrivals.line[a]] < 0 || !messageShown(arrivals.message[a])) continue;
    found.push(a);
  }
  return found;
}

function classOf(m) {
  const lit = m === scene.chosen ? "lit chosen" : scene.causes.has(m) ? "lit cause"
    : scene.effects.has(m) ? "lit effect" : scene.waits.has(m) ? "lit" : "";
  return `msg l${levelOf(m)} ${lit}${scene.waits.has(m) ? " waited" : ""}`;
}

function drawArrival(a) {
  const m = arrivals.message[a], y2 = scene.rowOf[arrivals.line[a]];
  const column = points[scene.time], origin = arrivals.origin[a];
  const received = arrivals.received[a], delivered = arrivals.delivered[a];
  const start = waitStart(a), came = received >= 0 ? received : delivered >= 0 ? delivered : start;
  const x2 = toX(column[came]);
  const parts = [];
  const from = origin < 0 ? -1 : scene.rowOf[points.line[origin]];
  if (from >= 0 && from !== y2) {
    const x1 = toX(column[origin]);
    parts.push(`<path class="arrow ${classOf(m)}" data-m="${m}" d="${arrow(x1, from, x2, y2)}"/>`);
    segments.push({ x1, y1: from, x2, y2, m, a, p: -1 });
  }
  if (start >= 0) {
    const end = delivered >= 0 ? toX(column[delivered]) : scene.width;
    const begin = toX(column[start]);
    parts.push(`<path class="wait ${classOf(m)}" data-m="${m}" d="M${n1(begin)} ${n1(y2)}H${n1(end)}"/>`);
    segments.push({ x1: begin, y1: y2, x2: end, y2, m, a, p: -1 });
  }
  if (delivered >= 0) parts.push(drawPoint(delivered, m, "deliver"));
  return parts.join("");
}

// One path with a line and its head, which ends at the edge of the point.
function arrow(x1, y1, x2, y2) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const ux = (x2 - x1) / length, uy = (y2 - y1) / length;
  const ex = x2 - ux * 4.5, ey = y2 - uy * 4.5, back = Math.min(8, length / 2);
  const head = (side) =>
    `${n1(ex - back * ux + side * 3.2 * uy)} ${n1(ey - back * uy - side * 3.2 * ux)}`;
  return `M${n1(x1)} ${n1(y1)}L${n1(ex)} ${n1(ey)}M${head(1)}L${n1(ex)} ${n1(ey)}L${head(-1)}`;
}

function drawPoint(p, m, what) {
  const x = toX(points[scene.time][p]), y = scene.rowOf[points.line[p]];
  if (x < GUTTER - 6 || x > scene.width + 6) return "";
  segments.push({ x1: x, y1: y, x2: x, y2: y, m, a: -1, p });
  const r = scene.step < 20 ? 3 : 4;
  return `<circle class="point ${what} ${classOf(m)}" data-m="${m}" cx="${n1(x)}" cy="${n1(y)}" r="${r}"/>`;
}

function tellThinning(count, thin) {
  notice.classList.toggle("thinned", thin > 1);
  const window = scene.time === "t"
    ? `${timeText(Math.max(scene.from, 0), scene.to - scene.from)} to ${timeText(scene.to, scene.to - scene.from)}`
    : `clocks ${Math.max(Math.ceil(scene.from), 1)} to ${Math.floor(scene.to)} of logical time`;
  notice.textContent = thin > 1
    ? `Only 1 of ${thin} messages is drawn: ${plural(count, "arrow")} would be too many. Zoom in to see all.`
    : `${window}: ${plural(count, "arrival")}`;
}

// ---- all else ----

function drawOthers() {
  const column = points[scene.time], found = [];
  for (let p = 0; p < pointCount; p++) {
    if (points.kind[p] <= DELIVER || !inside(column[p], column[p])) continue;
    if (scene.rowOf[points.line[p]] >= 0) found.push(p);
  }
  const thin = Math.max(1, Math.ceil(found.length / MOST_OTHERS));
  return found.filter((p) => p % thin === 0 || points.kind[p] >= INSTALL && points.kind[p] <= END)
    .map(drawOther).join("");
}

function drawOther(p) {
  const x = toX(points[scene.time][p]), y = scene.rowOf[points.line[p]], kind = points.kind[p];
  segments.push({ x1: x, y1: y, x2: x, y2: y, m: -1, a: -1, p });
  const solid = kind === START || kind === 10 ? " solid" : "";
  return `<path class="other${solid}" data-p="${p}" transform="translate(${n1(x)} ${n1(y)})" d="${SHAPES[kind]}"/>`;
}

function drawProofs() {
  const parts = [];
  violations.forEach((found, place) => {
    const chosen = place === scene.violation;
    if (!found.claimed && !chosen) return; // nobody promised it: shown when asked for
    const kind = `${found.claimed ? "" : " unkept"}${chosen ? " chosen" : ""}`;
    for (const { point } of found.evidence) {
      if (point < 0 || scene.rowOf[points.line[point]] < 0) continue;
      const x = toX(points[scene.time][point]), y = scene.rowOf[points.line[point]];
      if (x < GUTTER || x > scene.width) continue;
      if (!chosen && parts.length > 200) continue;
      parts.push(`<circle class="proof${kind}" data-v="${place}" cx="${n1(x)}" cy="${n1(y)}" r="9"/>`);
      if (chosen) parts.push(`<text class="proofname${kind}" x="${n1(x + 11)}" y="${n1(y - 7)}">${esc(found.name)}</text>`);
    }
  });
  return parts.join("");
}

function drawAxis() {
  const span = scene.to - scene.from;
  const room = Math.max(3, (scene.width - GUTTER) / 110);
  let step = 10 ** Math.floor(Math.log10(span / room));
  for (const factor of [1, 2, 5, 10]) if (span / (step * factor) <= room) { step *= factor; break; }
  if (scene.time === "clock" || trace.counted) step = Math.max(1, Math.round(step));
  const parts = [`<path class="edge" d="M${GUTTER} ${TOP - 8}H${scene.width}"/>`];
  for (let at = Math.ceil(scene.from / step) * step; at <= scene.to; at += step) {
    if (at < 0) continue;
    const x = toX(at), text = scene.time === "clock" || trace.counted ? Math.round(at) : axisTime(at, step);
    parts.push(`<path class="edge" d="M${n1(x)} ${TOP - 12}V${TOP - 4}"/>`,
      `<text class="tick" text-anchor="middle" x="${n1(x)}" y="${TOP - 15}">${text}</text>`);
  }
  return parts.join("");
}

function axisTime(t, step) {
  if (step >= 1e5) return `${(t / 1e6).toFixed(step >= 1e6 ? 0 : 1)} s`;
  return `${(t / 1e3).toFixed(step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3)} ms`;
}

function drawLabels() {
  const parts = [`<rect class="gutter" x="0" y="0" width="${GUTTER}" height="${scene.height}"/>`,
    `<text class="axis" x="10" y="${TOP - 15}">${scene.time === "clock" ? "Lamport clock" : trace.counted ? "step" : "time"}</text>`];
  for (const line of scene.rows) {
    const { label, kind, identity } = lines[line];
    const inset = kind === "client" ? 22 : 10, most = kind === "client" ? 15 : 17;
    const cut = label.length > most ? `${label.slice(0, most - 1)}…` : label;
    parts.push(`<text class="label ${kind}${scene.step < 20 ? " small" : ""}" x="${inset}" y="${n1(scene.rowOf[line] + 4)}">${esc(cut)}<title>${esc(identity)}</title></text>`);
  }
  return parts.join("");
}

// How many deliveries when, over the whole trace, and the window in it.
function drawOverview() {
  const [least, most] = ends(scene.time), width = Math.max(overview.clientWidth, 320);
  const bins = new Float64Array(Math.floor(width / 4)), column = points[scene.time];
  const place = (value) => (value - least) / (most - least);
  for (let p = 0; p < pointCount; p++)
    if (points.kind[p] === DELIVER) bins[Math.min(bins.length - 1, Math.floor(place(column[p]) * bins.length))]++;
  const highest = Math.max(1, ...bins);
  const parts = [];
  bins.forEach((count, at) => {
    const high = Math.ceil((count / highest) * 40);
    if (high) parts.push(`<rect class="bar" x="${at * 4}" y="${44 - high}" width="3" height="${high}"/>`);
  });
  const marks = new Set();
  violations.forEach((found, at) => {
    if (!found.claimed && at !== scene.violation) return;
    for (const { point } of found.evidence)
      if (point >= 0) marks.add(`<path class="${found.claimed ? "wrong" : "unkept"}" d="M${Math.round(place(column[point]) * width)} 0V44"/>`);
  });
  const x = place(scene.from) * width;
  parts.push(...marks, `<rect class="window" x="${n1(x)}" y="1" width="${n1(Math.max(2, place(scene.to) * width - x))}" height="42"/>`);
  overview.setAttribute("viewBox", `0 0 ${width} 44`);
  overview.innerHTML = parts.join("");
}
