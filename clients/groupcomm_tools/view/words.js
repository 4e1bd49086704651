// What is told in words. All of it goes into the page as text, or through esc().

// Signs of points that are about no message, by kind.
const SHAPES = {
  3: "M-4 3.5L0 -4L4 3.5Z", 4: "M0 -4.5L4.5 0L0 4.5L-4.5 0Z", 5: "M-3 -3H3V3H-3Z",
  6: "M0 -8V8", 7: "M0 -8V-3M0 3V8", 8: "M-3 -5L5 0L-3 5Z", 9: "M-5 -5L5 5M-5 5L5 -5",
  10: "M-2 0A2 2 0 1 0 2 0A2 2 0 1 0 -2 0", 11: "M-3 0H3M0 -3V3",
};

const esc = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

function shortName(m) {
  const sender = trace.texts[messages.sender[m]];
  const user = sender.startsWith("#") ? sender.split("#")[1] : sender;
  return `${user}:${messages.number[m]}`;
}

function timeText(t, span) {
  if (trace.counted) return `step ${Math.round(t)}`;
  const seconds = t / 1e6;
  const digits = span === undefined ? 6 : Math.min(6, Math.max(0, Math.ceil(-Math.log10(span / 1e6)) + 1));
  return `${seconds.toFixed(digits)} s`;
}

function durationText(t) {
  if (trace.counted) return t === 1 ? "1 step" : `${t} steps`;
  if (t < 1000) return `${t} µs`;
  return t < 1e6 ? `${+(t / 1000).toPrecision(4)} ms` : `${+(t / 1e6).toPrecision(4)} s`;
}

function plural(count, what) {
  return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
}

function messageText(m) {
  const level = levelOf(m);
  const to = destinations(m).join(", ");
  return `${shortName(m)}${level < 6 ? ` ${LEVELS[level]}` : ""}${to ? ` to ${to}` : ""}`;
}

function waitedFor(a) {
  const names = trace.sets[arrivals.waits[a]].map(shortName);
  const reason = trace.texts[arrivals.reason[a]];
  const some = names.slice(0, 6).join(", ") + (names.length > 6 ? " ..." : "");
  if (!names.length) return reason;
  return reason ? `${reason} (${some})` : some;
}

function pointText(p) {
  const where = lines[points.line[p]].label;
  const when = `${timeText(points.t[p])}, clock ${points.clock[p]}`;
  const note = trace.notes[p];
  if (note) return `${where} ${note}\n${when}`;
  const verb = { [SEND]: "sends", [RECEIVE]: "has, and cannot deliver yet,", [DELIVER]: "delivers" };
  return `${where} ${verb[points.kind[p]]} ${messageText(points.message[p])}\n${when}`;
}

function arrivalText(a) {
  const m = arrivals.message[a], to = lines[arrivals.line[a]].label;
  const sent = messages.sent[m], delivered = arrivals.delivered[a], received = arrivals.received[a];
  let text = `${messageText(m)}, to ${to}`;
  if (delivered >= 0 && sent >= 0)
    text += `\ndelivered ${durationText(points.t[delivered] - points.t[sent])} after it was sent`;
  if (delivered < 0) text += received >= 0 ? `\nreceived at ${timeText(points.t[received])}, not delivered` : "\nnot delivered";
  const start = waitStart(a);
  if (start >= 0) {
    if (delivered >= 0) text += `\nwaited ${durationText(points.t[delivered] - points.t[start])}`;
    const what = waitedFor(a);
    if (what) text += `\n${delivered >= 0 ? "for" : "waits for"} ${what}`;
  }
  return text;
}

const SIGNS = [
  ["send", "sent", '<circle class="point send l6" cx="9" cy="8" r="4"/>'],
  ["deliver", "delivered", '<circle class="point deliver l6" cx="9" cy="8" r="4"/>'],
  ["wait", "received, and waits for others", '<path class="wait l6" d="M1 8H17"/>'],
  ["view", "view of a group", other(4)],
  ["ask", "joins, leaves, connects", other(3)],
  ["told", "is told something else", other(5)],
  ["install", "daemon installs a view; hatched before: a transitional one", other(INSTALL)],
  ["start", "daemon starts", other(START)],
  ["end", "killed, crashed or left", other(END)],
  ["step", "step of an algorithm", other(10)],
  ["proof", "proves a violation", '<circle class="proof chosen" cx="9" cy="8" r="6"/>'],
];
const KEYS = [
  ["&larr; &rarr;", "earlier, later"], ["+ -", "zoom; also the wheel"], ["0", "the whole trace"],
  ["n p", "next, previous message"], ["v", "next violation"], ["l", "logical or physical time"],
  ["t", "tick lines"], ["Home End", "beginning, end"], ["Esc", "nothing chosen"],
];

function other(kind) {
  return `<path class="other${kind === 8 || kind === 10 ? " solid" : ""}" transform="translate(9 8)" d="${SHAPES[kind]}"/>`;
}
