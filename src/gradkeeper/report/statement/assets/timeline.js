// The timeline: lanes of windows. Few windows are drawn one by one, many are summed up in columns.

const LANE = 84, HEAD = 18, FOOT = 22, MOST_COLUMNS = 160, MOST_BLOCKS = 6;
const PINS = { error: "◆", warning: "◆", info: "◇" };

function drawTimeline() {
  const lanes = data.lanes.map((_, lane) => lane).filter((lane) => !view.hidden.has(lane));
  const height = HEAD + lanes.length * LANE + FOOT;
  const many = view.to - view.from;
  const { width, root } = canvas(height, `Windows ${view.from + 1} to ${view.to} of ${total}`);
  const { column, at } = across(width);
  lanes.forEach((lane, row) => {
    const base = HEAD + (row + 1) * LANE - 10;
    root.append(
      svg("rect", { class: "lane", x: GUTTER, y: base - LANE + 16, width: width - GUTTER - 4,
        height: LANE - 12, rx: 4 }),
      svg("text", { class: "lane-name", x: 8, y: base - LANE / 2 + 8 },
        shortened(data.lanes[lane].name, GUTTER / 7.5), svg("title", {}, laneName(lane))),
      svg("text", { class: "tick name", x: 8, y: base - LANE / 2 + 23 }, data.lanes[lane].where));
  });
  const row = new Map(lanes.map((lane, i) => [lane, HEAD + (i + 1) * LANE - 10]));
  const oneByOne = many <= Math.min(MOST_COLUMNS, (width - GUTTER) / 5);
  document.getElementById("summed").hidden = oneByOne;
  if (oneByOne) {
    for (let place = view.from; place < view.to; place++) {
      const shape = shapeAt(place);
      if (row.has(shape.lane)) root.append(drawWindow(place, shape, at(place), column, row.get(shape.lane)));
    }
  } else {
    drawColumns(root, row, width);
  }
  drawAxis(root, at, column, width, height);
  document.getElementById("timeline").replaceChildren(root);
}

/** One window: its backwards as blocks from below, its step on top, its close as the ground. */
function drawWindow(place, shape, x, column, base) {
  const width = Math.min(34, column * 0.78);
  const group = svg("g", {
    class: `window${place === view.chosen ? " chosen" : ""}${wanted(shape) ? "" : " faint"}`,
    "data-place": place, onclick: () => { choose(place); draw(); } });
  group.append(svg("title", {}, sentence(place)));
  group.append(svg("rect", { class: "hit", x: x - column / 2, y: base - LANE + 16, width: column, height: LANE - 12 }));
  if (shape.epoch) {
    group.append(svg("line", { class: "epoch", x1: x - column / 2, x2: x - column / 2, y1: base - LANE + 16, y2: base + 4 }));
  }
  const blocks = blocksOf(shape);
  const tall = Math.min(9, 46 / Math.max(1, blocks.length));
  let y = base;
  for (const [fate, many] of blocks) {
    y -= tall;
    group.append(svg("rect", { class: `block ${fate}`, x: x - width / 2, y, width, height: tall - 1.5, rx: 1.5 }));
    if (many > 1 && width > 22) {
      group.append(svg("text", { class: "many", x, y: y + tall - 2.5 }, `×${many}`));
    }
  }
  const ground = shape.ended === "open" ? "" : shape.closed ? "closed" : "left";
  if (ground) group.append(svg("line", { class: `ground ${ground}`, x1: x - width / 2, x2: x + width / 2, y1: base + 2.5, y2: base + 2.5 }));
  if (shape.ended !== "open") {
    const size = Math.min(6, width / 2);
    group.append(svg("path", { class: `step ${shape.ended}`, d: `M${x - size} ${y - 3}h${2 * size}l${-size} ${-size * 1.4}z` }));
  }
  if (shape.pins.length) {
    const severity = severityOf(shape);
    group.append(svg("text", { class: `pin ${severity}`, x, y: base - LANE + 28 }, PINS[severity]));
  }
  return group;
}

/** At most a few blocks: neighbours of one fate are joined when there are too many. */
function blocksOf(shape) {
  const all = shape.fates.flatMap(([fate, many]) => many > MOST_BLOCKS ? [[fate, many]] : Array(many).fill([fate, 1]));
  return all.length > 2 * MOST_BLOCKS ? shape.fates.slice(-2 * MOST_BLOCKS) : all;
}

/** Many windows: each column sums up a stretch of them; a click looks closer. */
function drawColumns(root, row, width) {
  const columns = Math.min(MOST_COLUMNS, Math.floor((width - GUTTER) / 5));
  const wide = (width - GUTTER - 8) / columns;
  const each = (view.to - view.from) / columns;
  document.getElementById("summed").textContent = `Each bar sums up about ${Math.max(2, Math.round(each)).toLocaleString("en")}` +
    " windows, a mark above it says that one of them has a finding. Click a bar to look closer, or press n for the next finding.";
  for (let i = 0; i < columns; i++) {
    const from = view.from + Math.floor(i * each);
    const to = Math.max(from + 1, view.from + Math.floor((i + 1) * each));
    const x = GUTTER + i * wide;
    for (const [lane, sum] of sumsOf(from, to)) {
      if (!row.has(lane)) continue;
      const base = row.get(lane);
      const group = svg("g", { class: `column${sum.wanted ? "" : " faint"}`, "data-from": from,
        onclick: () => { show(from - each, to + each); draw(); } });
      group.append(svg("title", {}, told(from, to, lane, sum)));
      group.append(svg("rect", { class: "hit", x, y: base - LANE + 16, width: wide, height: LANE - 12 }));
      let y = base;
      for (const fate of ["spent", "waiting", "dropped", "lost"]) {
        const tall = 46 * (sum[fate] || 0) / sum.windows / tallest(lane);
        if (!tall) continue;
        y -= tall;
        group.append(svg("rect", { class: `block ${fate}`, x: x + 0.5, y, width: wide - 1, height: tall }));
      }
      if (sum.skipped) {
        group.append(svg("rect", { class: "skips", x: x + 0.5, y: base + 2, width: wide - 1, height: 4 }));
      }
      if (sum.severity) {
        group.append(svg("rect", { class: `pin ${sum.severity}`, x: x + 0.5, y: base - LANE + 18, width: wide - 1, height: 8 }));
      }
      root.append(group);
    }
  }
}

function sumsOf(from, to) {
  const sums = new Map();
  eachShape(from, to, (shape, times) => {
    if (!sums.has(shape.lane)) sums.set(shape.lane, { windows: 0, skipped: 0, found: 0, wanted: false });
    const sum = sums.get(shape.lane);
    sum.windows += times;
    sum.wanted ||= wanted(shape);
    if (shape.ended === "skipped") sum.skipped += times;
    for (const [fate, many] of shape.fates) sum[fate] = (sum[fate] || 0) + many * times;
    if (shape.pins.length) {
      sum.found += times;
      const both = [sum.severity, severityOf(shape)];
      sum.severity = ["error", "warning", "info"].find((one) => both.includes(one));
    }
  });
  return sums;
}

const heights = new Map();
function tallest(lane) {
  if (!heights.has(lane)) {
    const many = data.shapes.filter((shape) => shape.lane === lane)
      .map((shape) => shape.fates.reduce((sum, [, more]) => sum + more, 0));
    heights.set(lane, many.reduce((one, other) => Math.max(one, other), 1));
  }
  return heights.get(lane);
}

function told(from, to, lane, sum) {
  const said = [`${laneName(lane)}: ${sum.windows} windows of ${from + 1} to ${to}`];
  for (const fate of ["spent", "waiting", "dropped", "lost"]) if (sum[fate]) said.push(`${sum[fate]} backward calls ${fate}`);
  if (sum.skipped) said.push(`${sum.skipped} steps skipped`);
  if (sum.found) said.push(`${sum.found} windows with findings`);
  return said.join("\n");
}

function drawAxis(root, at, column, width, height) {
  const many = view.to - view.from;
  const every = nice(many / Math.max(2, Math.floor((width - GUTTER) / 90)));
  for (let number = Math.ceil((view.from + 1) / every) * every; number <= view.to; number += every) {
    const text = number.toLocaleString("en");
    const x = Math.min(at(number - 1), width - 6 - 3.2 * text.length);
    root.append(svg("text", { class: "tick", x, y: height - 6 }, text));
  }
  if (many === 1 || every > many) root.append(svg("text", { class: "tick", x: at(view.from), y: height - 6 }, view.from + 1));
  root.append(svg("text", { class: "tick name", x: 8, y: height - 6 }, "window"));
  if (view.chosen >= view.from && view.chosen < view.to) {
    root.append(svg("line", { class: "cursor", x1: at(view.chosen), x2: at(view.chosen), y1: HEAD - 6, y2: height - FOOT + 4 }));
  }
}

function nice(step) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, step)));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= step) || 1;
}

/** The whole run in one strip, with the part that is shown. */
function drawOverview() {
  const place = document.getElementById("overview");
  place.hidden = total <= view.to - view.from;
  if (place.hidden) return;
  const { width, root } = canvas(22, "The whole run, and the part shown");
  const span = width - GUTTER - 8;
  const x = (one) => GUTTER + span * one / total;
  root.append(svg("rect", { class: "lane", x: GUTTER, y: 4, width: span, height: 14, rx: 3 }));
  const cells = 200;
  for (let i = 0; i < cells; i++) {
    const from = Math.floor(total * i / cells), to = Math.floor(total * (i + 1) / cells);
    const found = new Set();
    if (to > from) eachShape(from, to, (shape) => found.add(severityOf(shape)));
    const severity = ["error", "warning", "info"].find((one) => found.has(one));
    if (severity) root.append(svg("rect", { class: `pin ${severity}`, x: x(from), y: 7, width: Math.max(1.5, span / cells), height: 8 }));
  }
  root.append(svg("rect", { class: "shown", x: x(view.from), y: 2, height: 18, rx: 3,
    width: Math.max(4, x(view.to) - x(view.from)) }));
  root.append(svg("text", { class: "tick name", x: 8, y: 16 }, "whole run"));
  root.addEventListener("click", (event) => {
    const box = root.getBoundingClientRect();
    const middle = total * ((event.clientX - box.left) * width / box.width - GUTTER) / span;
    const half = (view.to - view.from) / 2;
    show(middle - half, middle + half);
    draw();
  });
  place.replaceChildren(root);
}

/** A window in one sentence, for tooltips and screen readers. */
function sentence(place) {
  const shape = shapeAt(place);
  const said = shape.fates.map(([fate, many]) => `${many} backward ${many > 1 ? "calls" : "call"} ${fate}`);
  const found = shape.pins.map((pin) => `${data.findings[pin].rule} ${data.findings[pin].name}`);
  const end = { open: "no step", spent: "step taken", skipped: "step skipped" }[shape.ended];
  return `Window ${place + 1}: ${laneName(shape.lane)}, step ${stepAt(place)}: ` +
    [...said, end].join(", ") + (found.length ? `. Findings: ${found.join(", ")}` : "");
}
