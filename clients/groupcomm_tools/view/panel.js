// Tells in words what is chosen.

const panel = document.getElementById("panel");
const SHOWN_ROWS = 40, SHOWN_NAMES = 12;

function tell() {
  if (scene.chosen >= 0) return tellMessage(scene.chosen);
  if (scene.violation >= 0) return tellViolation(violations[scene.violation]);
  panel.innerHTML = '<h2>A message</h2><p class="note">Click a message, or press n: what caused it, what it caused and what it waited for light up, and it is told here in words.</p>';
}

function tellMessage(m) {
  const sent = messages.sent[m], level = levelOf(m), stamp = trace.texts[messages.stamp[m]];
  const facts = [["sender", trace.texts[messages.sender[m]]], ["number", messages.number[m]]];
  if (level < 6) facts.push(["level", LEVELS[level]]);
  if (destinations(m).length) facts.push([level < 6 ? "groups" : "to", destinations(m).join(", ")]);
  if (stamp) facts.push([level < 6 ? "position" : "stamp", stamp]);
  if (messages.bytes[m]) facts.push(["stamp's length", plural(messages.bytes[m], "byte")]);
  facts.push(["sent", sent < 0 ? "not in this trace" : `${timeText(points.t[sent])}, clock ${points.clock[sent]}`]);
  panel.innerHTML = `<h2>${esc(shortName(m))}</h2><dl>${facts.map(([name, value]) =>
    `<dt>${name}</dt><dd>${esc(value)}</dd>`).join("")}</dl>` +
    names("caused by", "is-cause", scene.causes) + names("caused", "is-effect", scene.effects) +
    names("waited for", "", scene.waits) + receivers(m);
}

function names(what, kind, found) {
  const sorted = [...found].sort((a, b) => beginOf(a) - beginOf(b));
  const near = what === "caused by" ? sorted.slice(-SHOWN_NAMES) : sorted.slice(0, SHOWN_NAMES);
  const more = sorted.length - near.length;
  const buttons = near.map((m) => `<button data-go="${m}">${esc(shortName(m))}</button>`).join("");
  const rest = more ? ` <span class="note">and ${plural(more, "more")}</span>`.replace("mores", "more") : "";
  if (what === "waited for" && !found.size) return "";
  return `<h3 class="${kind}">${what}: ${found.size ? plural(found.size, "message") : "nothing"}</h3><div class="names">${buttons}${rest}</div>`;
}

function receivers(m) {
  const found = arrivalsOf[m];
  if (!found.length) return "<h3>nobody delivered it</h3>";
  const rows = found.slice(0, SHOWN_ROWS).map((a) => {
    const start = waitStart(a), received = arrivals.received[a], delivered = arrivals.delivered[a];
    const took = delivered >= 0 && messages.sent[m] >= 0
      ? `${durationText(points.t[delivered] - points.t[messages.sent[m]])}` : "";
    const waited = start < 0 ? "" : delivered < 0 ? "to the end"
      : durationText(points.t[delivered] - points.t[start]);
    const why = waitedFor(a);
    const when = delivered < 0 && start < 0 && received >= 0
      ? `received at ${timeText(points.t[received])}` : delivered < 0 ? "never" : timeText(points.t[delivered]);
    return `<tr><td>${esc(lines[arrivals.line[a]].label)}</td><td>${when}<br><span class="note">${took && `after ${took}`}</span></td><td>${waited || why ? esc(`${waited}${why ? ` for ${why}` : ""}`) : "nothing"}</td></tr>`;
  });
  const more = found.length - rows.length;
  return `<h3>at its receivers</h3><table><thead><tr><th>at</th><th>delivered</th><th>waited</th></tr></thead><tbody>${rows.join("")}</tbody></table>${more > 0 ? `<p class="note">and ${more} more</p>` : ""}`;
}

function tellViolation(found) {
  const proof = found.evidence.map(({ t, words, point }) => {
    const text = esc(`${timeText(t)}: ${words}`);
    return point < 0 ? `<li>${text}</li>` : `<li><button data-point="${point}">${text}</button></li>`;
  }).join("");
  const kind = found.claimed ? `${found.name} does not hold` : `${found.name} order not kept`;
  panel.innerHTML = `<h2>${esc(kind)}</h2><p>${esc(found.text)}</p><h3>proved by</h3><ul>${proof || "<li>no single event</li>"}</ul>${found.claimed ? "" : '<p class="note">An algorithm need not promise this order.</p>'}`;
}

function listViolations() {
  if (!violations.length) return;
  const section = document.getElementById("violations");
  const wrong = violations.filter((found) => found.claimed).length;
  section.hidden = false;
  section.querySelector("h2").textContent = wrong ? plural(wrong, "violation") : "Order not kept";
  section.querySelector("ol").innerHTML = violations.map((found, place) =>
    `<li><button data-v="${place}" class="${found.claimed ? "" : "unkept"}">${esc(`${found.name}: ${found.text}`)}</button></li>`).join("");
}
