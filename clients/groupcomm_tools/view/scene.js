// What is looked at: which time, which window of it, which lines, groups and levels; what is chosen.

const GUTTER = 132, MARGIN = 18, TOP = 30;
const scene = {
  time: "t", // the column of points that runs to the right: t or clock
  from: 0, to: 1, // the window, in that time
  ticks: false, views: true, daemons: true,
  hiddenLines: new Set(), hiddenLevels: new Set(), hiddenGroups: new Set(),
  chosen: -1, causes: new Set(), effects: new Set(), waits: new Set(),
  violation: -1,
  width: 1000, rows: [], rowOf: [], height: 0, step: 30,
};
const PRIVATE = "private messages";
const hasGroups = lines.some((line) => line.kind === "client");
const groupsOfSet = trace.sets.map((names) =>
  [...new Set(names.map((name) => (String(name).startsWith("#") ? PRIVATE : name)))]);

function ends(time) {
  const column = points[time];
  let low = Infinity, high = -Infinity;
  for (const value of column) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low > high ? [0, 1] : [low, Math.max(high, low + 1)];
}

// Rows of the lines that are shown; a little room stands above each daemon.
function layOut() {
  const shown = lines.map((line, at) => at).filter((at) =>
    !scene.hiddenLines.has(at) && (scene.daemons || lines[at].kind !== "daemon"));
  scene.step = Math.max(15, Math.min(64, 620 / Math.max(shown.length, 1)));
  scene.rowOf = lines.map(() => -1);
  let y = TOP;
  shown.forEach((at, place) => {
    const apart = place > 0 && homeOf(at) !== homeOf(shown[place - 1]);
    y += scene.step * (place === 0 ? 0.7 : apart ? 1.25 : 1);
    scene.rowOf[at] = y;
  });
  scene.rows = shown;
  scene.height = y + scene.step * 0.8;
}

function homeOf(line) {
  const { kind, home } = lines[line];
  return kind === "daemon" ? line : kind === "client" ? home : -1;
}

function toX(value) {
  const share = (value - scene.from) / (scene.to - scene.from);
  return GUTTER + share * (scene.width - GUTTER - MARGIN);
}

function fromX(x) {
  return scene.from + ((x - GUTTER) / (scene.width - GUTTER - MARGIN)) * (scene.to - scene.from);
}

// Where a moment of physical time is on a line: in logical time between two of its points.
function momentOn(line, t) {
  if (scene.time === "t") return t;
  const own = pointsOf[line];
  let low = 0, high = own.length; // the first point at or after t
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points.t[own[middle]] < t) low = middle + 1;
    else high = middle;
  }
  if (low < own.length) return points.clock[own[low]] - 0.5;
  return own.length ? points.clock[own[own.length - 1]] + 0.5 : 0;
}

function messageShown(m) {
  if (scene.hiddenLevels.has(levelOf(m))) return false;
  if (!scene.hiddenGroups.size) return true;
  return groupsOfSet[messages.to[m]].some((name) => !scene.hiddenGroups.has(name));
}

function isLit(m) {
  return m === scene.chosen || scene.causes.has(m) || scene.effects.has(m) || scene.waits.has(m);
}

// A window has a little room before the first point and behind the last one, however wide it is.
const ROOM = 0.03;

function setWindow(from, to) {
  const [least, most] = ends(scene.time);
  const whole = (most - least) / (1 - 2 * ROOM);
  const shortest = scene.time === "clock" || trace.counted ? 2 : 20;
  const span = Math.min(Math.max(to - from, Math.min(shortest, whole)), whole);
  const wanted = span < whole ? (from + to - span) / 2 : least - span * ROOM;
  scene.from = Math.min(Math.max(wanted, least - span * ROOM), most + span * ROOM - span);
  scene.to = scene.from + span;
}

function showAll() {
  setWindow(-Infinity, Infinity);
}

function zoom(factor, at) {
  const fixed = at === undefined ? (scene.from + scene.to) / 2 : at;
  setWindow(fixed - (fixed - scene.from) * factor, fixed + (scene.to - fixed) * factor);
}

function pan(share) {
  const by = (scene.to - scene.from) * share;
  setWindow(scene.from + by, scene.to + by);
}

// Show these points with room around them, and not nearer than messages are apart.
function goTo(places) {
  const values = places.filter((p) => p >= 0).map((p) => points[scene.time][p]);
  if (!values.length) return;
  const low = Math.min(...values), high = Math.max(...values);
  const span = scene.to - scene.from;
  if (low >= scene.from + span * 0.05 && high <= scene.to - span * 0.05) return;
  const [least, most] = ends(scene.time);
  const usual = Math.min(span, ((most - least) * 30) / Math.max(messageCount, 30));
  const wanted = Math.max((high - low) * 1.5, usual);
  setWindow((low + high - wanted) / 2, (low + high + wanted) / 2);
}

// The same points in the window, along the other time.
function changeTime(time) {
  if (time === scene.time) return;
  const old = points[scene.time], next = points[time];
  let low = Infinity, high = -Infinity;
  for (let p = 0; p < pointCount; p++) {
    if (old[p] < scene.from || old[p] > scene.to) continue;
    low = Math.min(low, next[p]);
    high = Math.max(high, next[p]);
  }
  scene.time = time;
  const pad = Math.max((high - low) * 0.02, 0.5);
  if (low <= high) setWindow(low - pad, high + pad);
  else showAll();
}

// The beginning: all of a short trace; of a long one as many messages as can be told apart.
function firstWindow() {
  const [least, most] = ends(scene.time);
  let seen = 0, place = -1;
  for (let a = 0; a < arrivalCount && seen < 160; a++, seen++) place = arrivals.delivered[a];
  const end = arrivalCount <= 400 || place < 0 ? most : points[scene.time][place];
  setWindow(least - (end - least) * ROOM, end + (end - least) * ROOM);
}

function choose(m) {
  const none = new Set();
  scene.chosen = m;
  scene.causes = m < 0 ? none : causesOf(m);
  scene.effects = m < 0 ? none : effectsOf(m);
  scene.waits = m < 0 ? none : waitsOf(m);
}
