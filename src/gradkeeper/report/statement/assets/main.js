// Buttons, search, keys, theme.

function draw() {
  drawOverview();
  drawTimeline();
  drawCurves();
  drawTable();
  document.getElementById("chosen").textContent = view.chosen < 0 ? "" : `${sentence(view.chosen)}.`;
}

function on(id, act) {
  document.getElementById(id).addEventListener("click", () => { act(); });
}

function choosing(place, direction) {
  const start = view.chosen < 0 && direction > 0 && place === 0 ? view.from : place;
  const next = seek(start, direction, (shape) => !view.hidden.has(shape.lane));
  if (next >= 0) { choose(next); draw(); }
}

function nextFinding(direction) {
  const start = view.chosen < 0 ? (direction > 0 ? 0 : total - 1) : view.chosen + direction;
  const place = seek(start, direction, (shape) => shape.pins.length && !view.hidden.has(shape.lane));
  if (place >= 0) { lookAt(place); draw(); }
}

/** Chooses a window and comes close enough to see it alone. */
function lookAt(place) {
  if (view.to - view.from > 60) show(place - 20, place + 20);
  choose(place);
}

function jump(pin) {
  const place = seek(0, 1, (shape) => shape.pins.includes(pin));
  if (place < 0) return;
  view.hidden.delete(shapeAt(place).lane);
  lookAt(place);
  syncButtons();
  draw();
  document.getElementById("timeline").scrollIntoView({ block: "center" });
  document.getElementById("timeline").focus({ preventScroll: true });
}

function read() {
  const body = document.querySelector(`table.statement tbody[data-place="${view.chosen}"]`);
  if (body) body.scrollIntoView({ block: "center" });
}

function filter() {
  view.query = document.getElementById("search").value.trim().toLowerCase();
  view.page = 0;
  let shown = 0;
  for (const card of document.querySelectorAll(".finding")) {
    card.hidden = Boolean(view.query) && !card.textContent.toLowerCase().includes(view.query);
    shown += !card.hidden;
  }
  document.getElementById("no-findings").hidden = shown > 0;
  draw();
}

function theme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  nameTheme();
}

function nameTheme() {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.getElementById("theme").textContent = dark ? "Light" : "Dark";
}

function syncButtons() {
  document.getElementById("only").setAttribute("aria-pressed", view.only);
  document.querySelectorAll("#lanes button").forEach((button) => {
    button.setAttribute("aria-pressed", !view.hidden.has(Number(button.dataset.lane)));
  });
}

function laneButtons() {
  if (data.lanes.length < 2) return;
  document.getElementById("lanes").append("Lanes ", ...data.lanes.map((_, lane) => make("button", {
    type: "button", "data-lane": lane, "aria-pressed": "true", onclick: () => {
      if (!view.hidden.delete(lane)) view.hidden.add(lane);
      view.page = 0;
      syncButtons();
      draw();
    } }, laneName(lane))));
}

const KEYS = {
  ArrowRight: () => choosing(view.chosen + 1, 1),
  ArrowLeft: () => choosing(view.chosen < 0 ? view.to - 1 : view.chosen - 1, -1),
  Home: () => choosing(0, 1),
  End: () => choosing(total - 1, -1),
  n: () => nextFinding(1),
  p: () => nextFinding(-1),
  "+": () => { zoom(0.5); draw(); },
  "=": () => { zoom(0.5); draw(); },
  "-": () => { zoom(2); draw(); },
  0: () => { show(0, total); draw(); },
  Enter: read,
  "/": () => document.getElementById("search").focus(),
  t: theme,
  "?": () => document.getElementById("help").showModal(),
};
const ONLY_HERE = ["Home", "End", "Enter"];

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "Escape" && typing) {
    event.target.value = "";
    filter();
    event.target.blur();
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
  const act = KEYS[event.key];
  // Elsewhere these belong to the page: it scrolls, and buttons are pressed.
  if (!act || (ONLY_HERE.includes(event.key) && event.target.id !== "timeline")) return;
  event.preventDefault();
  act();
});

on("in", () => { zoom(0.5); draw(); });
on("out", () => { zoom(2); draw(); });
on("all", () => { show(0, total); draw(); });
on("earlier", () => { pan(-0.5); draw(); });
on("later", () => { pan(0.5); draw(); });
on("only", () => { view.only = !view.only; view.page = 0; syncButtons(); draw(); });
on("page-back", () => turnPage(-1));
on("page-on", () => turnPage(1));
on("theme", theme);
on("print", () => window.print());
on("help-button", () => document.getElementById("help").showModal());
document.getElementById("search").addEventListener("input", filter);
for (const button of document.querySelectorAll("[data-jump]")) {
  const pin = Number(button.dataset.jump);
  // What another rank found, or what the lines alone tell, has no window in these books.
  button.hidden = !data.shapes.some((shape) => shape.pins.includes(pin));
  button.addEventListener("click", () => jump(pin));
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
window.addEventListener("beforeprint", () => { paper = 900; if (total) draw(); });
window.addEventListener("afterprint", () => { paper = 0; if (total) draw(); });
let settled = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(settled);
  settled = requestAnimationFrame(() => { if (total) draw(); });
});

document.getElementById("only").hidden = !data.findings.length;
laneButtons();
nameTheme();
if (total) draw();
else for (const id of ["time", "statement"]) document.getElementById(id).hidden = true;
