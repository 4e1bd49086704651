// What the user does.

const byId = (id) => document.getElementById(id);
const tip = byId("tip");
let pending = false;
if (matchMedia("(max-width: 700px)").matches) byId("signs").open = false; // a phone shows the diagram first

function redraw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; draw(); });
}

function pick(m, go = true) {
  choose(m);
  if (m >= 0 && go) goTo([beginOf(m)]);
  tell();
  redraw();
}

function pickViolation(place) {
  scene.violation = place;
  choose(-1);
  goTo(violations[place].evidence.map(({ point }) => point));
  for (const button of byId("violations").querySelectorAll("button"))
    button.setAttribute("aria-current", String(Number(button.dataset.v) === place));
  tell();
  redraw();
}

// ---- what is pointed at ----

function nearest(event) {
  const box = diagram.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  let best = null, least = 8;
  for (const found of segments) {
    const { x1, y1, x2, y2 } = found, dx = x2 - x1, dy = y2 - y1;
    const square = dx * dx + dy * dy;
    const share = square ? Math.min(1, Math.max(0, ((x - x1) * dx + (y - y1) * dy) / square)) : 0;
    const far = Math.hypot(x - x1 - share * dx, y - y1 - share * dy) + (square ? 2.5 : 0);
    if (far < least || (far === least && best && isLit(found.m))) { best = found; least = far; }
  }
  return x < GUTTER ? null : best;
}

function showTip(event) {
  const found = nearest(event);
  tip.hidden = !found;
  diagram.style.cursor = found && found.m >= 0 ? "pointer" : "";
  if (!found) return;
  tip.textContent = found.p >= 0 ? pointText(found.p) : arrivalText(found.a);
  const box = byId("drawing").getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  tip.style.left = `${Math.max(4, Math.min(x + 14, box.width - tip.offsetWidth - 6))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > box.height ? y - tip.offsetHeight - 8 : y + 18}px`;
}

// ---- wheel, drag, click ----

diagram.addEventListener("wheel", (event) => {
  const x = event.clientX - diagram.getBoundingClientRect().left;
  if (x < GUTTER) return; // over the names the page scrolls
  event.preventDefault();
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
    pan((event.deltaX || event.deltaY) / scene.width);
  else zoom(Math.exp(Math.max(-300, Math.min(300, event.deltaY)) / 500), fromX(x));
  redraw();
}, { passive: false });

function drag(element, onMove, onClick) {
  let start = null, moved = false;
  element.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    start = { x: event.clientX, from: scene.from, to: scene.to };
    moved = false;
  });
  element.addEventListener("pointermove", (event) => {
    if (!start) return;
    if (!moved && Math.abs(event.clientX - start.x) < 4) return;
    if (!moved) element.setPointerCapture(event.pointerId);
    moved = true;
    element.classList.add("moving");
    onMove(event.clientX - start.x, start);
    redraw();
  });
  const end = (event) => {
    if (start && !moved && event.type === "pointerup") onClick(event);
    start = null;
    element.classList.remove("moving");
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
}

drag(diagram, (dx, start) => {
  const by = (-dx / (scene.width - GUTTER - MARGIN)) * (start.to - start.from);
  setWindow(start.from + by, start.to + by);
}, (event) => {
  const found = nearest(event);
  diagram.focus({ preventScroll: true });
  pick(found ? found.m : -1, false);
});

drag(overview, (dx, start) => {
  const [least, most] = ends(scene.time);
  const by = (dx / overview.clientWidth) * (most - least);
  setWindow(start.from + by, start.to + by);
}, (event) => {
  const [least, most] = ends(scene.time), box = overview.getBoundingClientRect();
  const at = least + ((event.clientX - box.left) / box.width) * (most - least);
  const half = (scene.to - scene.from) / 2;
  setWindow(at - half, at + half);
  redraw();
});

diagram.addEventListener("pointermove", showTip);
diagram.addEventListener("pointerleave", () => { tip.hidden = true; });

byId("side").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.go) pick(Number(button.dataset.go));
  else if (button.dataset.v) pickViolation(Number(button.dataset.v));
  else if (button.dataset.point) { goTo([Number(button.dataset.point)]); redraw(); }
});

// ---- keys and buttons ----

const edge = (first) => { const [least, most] = ends(scene.time), span = scene.to - scene.from;
  setWindow(first ? least : most - span, first ? least + span : most); };
const KEY_ACTIONS = {
  ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.7), "=": () => zoom(0.7),
  "-": () => zoom(1 / 0.7), 0: showAll, Home: () => edge(true), End: () => edge(false),
  n: () => nextMessage(1), p: () => nextMessage(-1), v: nextViolation,
  l: () => setTime(scene.time === "t" ? "clock" : "t"),
  t: () => { scene.ticks = byId("ticks").checked = !scene.ticks; },
  Escape: () => { scene.violation = -1; pick(-1); },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, summary, select") && event.key.length > 1 && event.key !== "Escape") return;
  const action = KEY_ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
  redraw();
});

// Through messages in the order of their sending, as they are shown.
function nextMessage(by) {
  if (!messageCount) return;
  const order = nextMessage.order ??= Array.from({ length: messageCount }, (_, m) => m)
    .sort((a, b) => beginOf(a) - beginOf(b));
  let at = order.indexOf(scene.chosen);
  if (at < 0) at = order.findIndex((m) => points[scene.time][beginOf(m)] >= scene.from) - (by > 0 ? 1 : 0);
  for (let tried = 0; tried < order.length; tried++) {
    at = (at + by + order.length) % order.length;
    if (messageShown(order[at]) && beginOf(order[at]) >= 0) return pick(order[at]);
  }
}

function nextViolation() {
  if (violations.length) pickViolation((scene.violation + 1) % violations.length);
}

function setTime(time) {
  changeTime(time);
  byId("physical").checked = time === "t";
  byId("logical").checked = time === "clock";
  redraw();
}

const clicks = {
  "zoom-in": () => zoom(0.6), "zoom-out": () => zoom(1 / 0.6), earlier: () => pan(-0.5),
  later: () => pan(0.5), fit: showAll,
  physical: () => setTime("t"), logical: () => setTime("clock"),
  ticks: () => { scene.ticks = byId("ticks").checked; },
  views: () => { scene.views = byId("views").checked; },
  daemons: () => { scene.daemons = byId("daemons").checked; },
  "lines-all": () => checkAll(true), "lines-none": () => checkAll(false),
};
for (const id in clicks) byId(id).addEventListener("click", () => { clicks[id](); redraw(); });

// ---- what may be left out ----

function checks(into, hidden, names, sample = () => "") {
  byId(into).insertAdjacentHTML("beforeend", names.map(([value, text]) =>
    `<label><input type="checkbox" checked data-value="${esc(value)}"> ${sample(value)}${esc(text)}</label>`).join(""));
  byId(into).addEventListener("change", (event) => {
    const place = [...byId(into).querySelectorAll("input")].indexOf(event.target);
    const value = names[place][0];
    if (event.target.checked) hidden.delete(value);
    else hidden.add(value);
    redraw();
  });
}

function checkAll(on) {
  for (const box of byId("lines").querySelectorAll("input")) box.checked = on;
  scene.hiddenLines.clear();
  if (!on) lines.forEach((_, at) => scene.hiddenLines.add(at));
}

function begin() {
  const used = [...new Set(Array.from({ length: messageCount }, (_, m) => levelOf(m)))].sort();
  checks("levels", scene.hiddenLevels, used.map((level) => [level, LEVELS[level]]), (level) =>
    `<svg class="sample" viewBox="0 0 34 12" aria-hidden="true"><path class="l${level}" fill="none" stroke-width="${level === 5 ? 2.6 : 1.6}" d="M0 6H33"/></svg> `);
  const groups = [...new Set(Array.from(new Set(messages.to)).flatMap((set) => groupsOfSet[set]))].sort();
  checks("groups", scene.hiddenGroups, groups.map((name) => [name, name]));
  checks("lines", scene.hiddenLines, lines.map((line, at) =>
    [at, line.kind === "client" ? `${line.label} at ${lines[line.home].label}` : line.label]));
  byId("groups-choice").hidden = !hasGroups;
  byId("views-choice").hidden = !bands.length;
  byId("daemons-choice").hidden = !lines.some((line) => line.kind === "daemon");
  byId("levels").hidden = used.length === 1 && used[0] === 6;
  byId("signs").querySelector("div").innerHTML = `<ul>${SIGNS.map(([, text, sign]) =>
    `<li><svg class="sign" viewBox="0 0 18 16" aria-hidden="true">${sign}</svg> ${text}</li>`).join("")}</ul><ul>${KEYS.map(([key, text]) =>
    `<li><kbd>${key}</kbd> ${text}</li>`).join("")}</ul>`;
  listViolations();
  firstWindow();
  draw();
  new ResizeObserver(() => { if (diagram.clientWidth !== scene.width) redraw(); }).observe(byId("drawing"));
}

begin();
