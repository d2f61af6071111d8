// Losses and gradient norms, where the run measured them, over the same windows as the timeline.

const TALL = 96;
const names = [...new Set(data.curves.map((curve) => curve.name))];

function drawCurves() {
  const place = document.getElementById("curves");
  const panels = names.map((name) => {
    const some = data.curves.filter((curve) => curve.name === name && !view.hidden.has(curve.lane));
    return some.length ? panel(name, some) : null;
  });
  place.replaceChildren(...panels.filter((one) => one));
  document.getElementById("unmeasured").hidden = names.length > 0;
}

function panel(name, curves) {
  const { width, root } = canvas(TALL, `${name} over the windows`);
  const { at } = across(width);
  const parts = curves.map((curve) => inView(curve));
  const known = parts.flat().map(([, y]) => y).filter((y) => typeof y === "number");
  let low = Infinity, high = -Infinity;
  for (const y of known) { low = Math.min(low, y); high = Math.max(high, y); }
  const log = low > 0 && high / low > 100;
  const scale = (y) => log ? Math.log(y) : y;
  const span = scale(high) - scale(low) || 1;
  const up = (y) => TALL - 14 - (TALL - 30) * (scale(y) - scale(low)) / span;
  root.append(svg("rect", { class: "lane", x: GUTTER, y: 8, width: width - GUTTER - 4, height: TALL - 14, rx: 4 }));
  root.append(svg("text", { class: "lane-name", x: 8, y: 24 }, shortened(name, GUTTER / 6)));
  if (known.length) {
    const range = low === high ? brief(low) : `${brief(low)} to ${brief(high)}`;
    root.append(svg("text", { class: "tick name", x: 8, y: 39 }, log ? `${range}, log` : range));
  }
  parts.forEach((points, i) => {
    const lane = curves[i].lane;
    const fine = points.filter(([, y]) => typeof y === "number");
    const path = fine.map(([x, y]) => `${at(x).toFixed(1)},${up(y).toFixed(1)}`).join(" ");
    root.append(svg("polyline", { class: `curve tone-${lane % 6}`, points: path }, svg("title", {}, laneName(lane))));
    if (fine.length === 1) root.append(svg("circle", { class: `dot tone-${lane % 6}`, cx: at(fine[0][0]), cy: up(fine[0][1]), r: 2.5 }));
    for (const [x, y] of points) {
      if (typeof y === "string") root.append(svg("text", { class: "pin error", x: at(x), y: 20 }, "✕", svg("title", {}, y)));
    }
    if (curves.length > 1 && i < 3) {
      root.append(svg("text", { class: `curve-name tone-${lane % 6}`, x: 8, y: 56 + 14 * i }, `― ${shortened(curveName(curves[i]), GUTTER / 8)}`));
    }
  });
  if (view.chosen >= view.from && view.chosen < view.to) {
    root.append(svg("line", { class: "cursor", x1: at(view.chosen), x2: at(view.chosen), y1: 8, y2: TALL - 6 }));
  }
  return make("div", { class: "chart" }, root);
}

/** What tells it from the others: the optimizer, or where there is one only, the rank. */
function curveName({ lane, where }) {
  const several = data.lanes.some(({ name }) => name !== data.lanes[lane].name);
  return several || !where ? data.lanes[lane].name : where;
}

/** The points in view, thinned to what a screen can show: the extremes of every few. */
function inView(curve) {
  const points = [];
  for (let i = 0; i < curve.x.length; i++) {
    if (curve.x[i] >= view.from && curve.x[i] < view.to) points.push([curve.x[i], curve.y[i]]);
  }
  const size = Math.ceil(points.length / 600);
  if (size < 2) return points;
  const thin = [];
  for (let i = 0; i < points.length; i += size) {
    const some = points.slice(i, i + size).sort((one, other) => one[1] - other[1]);
    const odd = some.find(([, y]) => typeof y === "string");
    const ends = some.length > 1 ? [some[0], some[some.length - 1]] : some;
    thin.push(...[...new Set(odd ? [...ends, odd] : ends)].sort((one, other) => one[0] - other[0]));
  }
  return thin;
}

function brief(value) {
  const small = value !== 0 && Math.abs(value) < 1e-3;
  return small ? value.toExponential(1) : Number(value.toPrecision(3)).toString();
}
