"use strict";
// The diagram as the page got it, in columns; and which messages cause which.

const trace = JSON.parse(document.getElementById("trace").textContent);
const SEND = 0, RECEIVE = 1, DELIVER = 2, INSTALL = 6, TRANSITION = 7, START = 8, END = 9;
const LEVELS = [...trace.levels, "no level"];
const points = typed(trace.points);
const messages = trace.messages;
const arrivals = trace.arrivals;
const lines = trace.lines.map(([label, identity, kind, home]) => ({ label, identity, kind, home }));
const bands = trace.bands.map(([line, begins, ends, transitional, view, members]) =>
  ({ line, begins, ends, transitional, view: trace.texts[view], members: trace.sets[members] }));
const violations = trace.violations.map(([name, claimed, text, evidence]) =>
  ({ name, claimed, text, evidence: evidence.map(([t, words, point]) => ({ t, words, point })) }));
const pointCount = points.t.length;
const messageCount = messages.sent.length;
const arrivalCount = arrivals.message.length;
const pointsOf = lines.map(() => []); // places of each line's points, in order
for (let p = 0; p < pointCount; p++) pointsOf[points.line[p]].push(p);
const arrivalsOf = Array.from({ length: messageCount }, () => []);
for (let a = 0; a < arrivalCount; a++) arrivalsOf[arrivals.message[a]].push(a);

function typed(columns) {
  const found = {};
  for (const name in columns) found[name] = Float64Array.from(columns[name]);
  return found;
}

function levelOf(m) {
  const level = messages.level[m];
  return level < 0 ? 6 : level;
}

function destinations(m) {
  return trace.sets[messages.to[m]];
}

// Where a message began: its sending, or where it was delivered first.
function beginOf(m) {
  if (messages.sent[m] >= 0) return messages.sent[m];
  let first = -1;
  for (const a of arrivalsOf[m]) {
    const p = arrivals.delivered[a];
    if (p >= 0 && (first < 0 || p < first)) first = p;
  }
  return first;
}

// Happens before, over messages: one that a process sends after it has sent or been delivered
// another may be caused by it. Points stand in an order that no cause contradicts, so one pass
// over them finds all: forwards for effects, backwards for causes.

function effectsOf(m) {
  const found = new Set(), knows = new Uint8Array(lines.length);
  const start = beginOf(m);
  for (let p = Math.max(start, 0); p < pointCount; p++) {
    const x = points.message[p], line = points.line[p], kind = points.kind[p];
    if (kind === SEND) {
      if (x === m) knows[line] = 1;
      else if (knows[line]) found.add(x);
    } else if (kind === DELIVER && (x === m || found.has(x))) knows[line] = 1;
  }
  found.delete(m);
  return found;
}

function causesOf(m) {
  const found = new Set(), needed = new Uint8Array(lines.length);
  const start = messages.sent[m];
  if (start < 0) return found;
  needed[points.line[start]] = 1;
  for (let p = start - 1; p >= 0; p--) {
    const x = points.message[p], line = points.line[p], kind = points.kind[p];
    if (kind === DELIVER) {
      if (needed[line]) found.add(x);
    } else if (kind === SEND && (needed[line] || found.has(x))) {
      found.add(x);
      needed[line] = 1;
    }
  }
  found.delete(m);
  return found;
}

// The point from which a message waited at a receiver; -1 if it did not. One's own waits from its
// sending on. What was received and neither buffered nor delivered is no user's: an answer, say.
function waitStart(a) {
  const told = trace.sets[arrivals.waits[a]].length > 0 || trace.texts[arrivals.reason[a]] !== "";
  const received = arrivals.received[a], sent = messages.sent[arrivals.message[a]];
  if (received >= 0) return arrivals.delivered[a] >= 0 || told ? received : -1;
  return told && sent >= 0 && points.line[sent] === arrivals.line[a] ? sent : -1;
}

function waitsOf(m) {
  const found = new Set();
  for (const a of arrivalsOf[m]) for (const x of trace.sets[arrivals.waits[a]]) found.add(x);
  found.delete(m);
  return found;
}
