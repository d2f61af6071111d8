// The statement: every movement of a few windows at a time, with lines and balance.

const PAGE = 12;

function drawTable() {
  const places = [];
  for (let place = view.page; places.length < PAGE;) {
    place = seek(place, 1, wanted);
    if (place < 0) break;
    places.push(place++);
  }
  const table = document.querySelector("table.statement");
  table.querySelectorAll("tbody").forEach((one) => one.remove());
  table.append(...places.map(group));
  table.hidden = !places.length;
  document.getElementById("nothing").hidden = places.length > 0;
  const first = places[0], last = places[places.length - 1];
  document.getElementById("page-at").textContent = places.length
    ? `windows ${first + 1} to ${last + 1} of ${total.toLocaleString("en")}` : "";
  document.getElementById("page-back").disabled = !places.length || seek(first - 1, -1, wanted) < 0;
  document.getElementById("page-on").disabled = !places.length || seek(last + 1, 1, wanted) < 0;
}

function turnPage(direction) {
  let place = view.page;
  for (let i = 0; i < PAGE; i++) {
    const next = seek(place + direction, direction, wanted);
    if (next < 0) break;
    place = next;
  }
  view.page = place;
  drawTable();
}

function group(place) {
  const shape = shapeAt(place);
  const facts = [laneName(shape.lane)];
  if (shape.batches > 1) facts.push(`${shape.batches} batches`);
  if (shape.epoch) facts.push("an epoch begins");
  if (shape.ended === "skipped") facts.push("step skipped");
  if (shape.ended === "open") facts.push("no step");
  const pins = shape.pins.map((pin) => make("button", {
    type: "button", class: `pin ${data.findings[pin].severity}`, title: data.findings[pin].said,
    onclick: () => openFinding(pin) }, `${data.findings[pin].rule} ${data.findings[pin].name}`));
  const head = make("tr", { class: "head" },
    make("th", { scope: "row" }, shape.ended === "open" ? "–" : stepAt(place).toLocaleString("en")),
    make("td", { colspan: 5 }, make("button", { type: "button", class: "link", title: "Show on the timeline",
      onclick: () => { choose(place); draw(); } }, `window ${(place + 1).toLocaleString("en")}`),
      ` · ${facts.join(" · ")} `, ...pins));
  const rows = shape.lines.map(row);
  if (shape.more) rows.push(make("tr", {}, make("td"), make("td", { colspan: 5 }, `and ${shape.more} more lines`)));
  return make("tbody", { "data-place": place, class: place === view.chosen ? "chosen" : "" }, head, ...rows);
}

function row(line) {
  const site = siteOf(line);
  const times = line.times > 1 ? ` (${line.times} times)` : "";
  const balance = `${line.waiting}${line.left ? " + spent" : ""}`;
  return make("tr", { class: line.lost ? "lost" : "" },
    make("td"),
    make("td", {}, make("b", { class: `kind of-${line.kind}` }, line.kind), ` ${line.words}${times}`),
    make("td", { title: `${site.file}:${site.number} in ${site.where}` }, make("span", { class: "place" }, site.short), " ",
      make("code", {}, site.text === null ? "(source not at hand)" : site.text)),
    make("td", { class: "number" }, line.credit ? `+${line.credit}` : ""),
    make("td", { class: "number" }, line.debit ? `−${line.debit}` : ""),
    make("td", { class: "number", title: line.left ? "what was spent still lies in .grad" : undefined }, balance));
}

function openFinding(pin) {
  const card = document.getElementById(`finding-${pin}`);
  if (!card) return;
  card.hidden = false;
  card.scrollIntoView({ block: "center" });
  card.focus();
}
