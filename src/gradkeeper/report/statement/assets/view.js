// What is shown: the stretch of windows, the lanes, the search, the chosen window.

const view = {
  from: 0,
  to: total,
  chosen: -1,
  page: 0,
  query: "",
  only: false,
  hidden: new Set(),
};
const FEWEST = 6;

function wanted(shape) {
  if (view.hidden.has(shape.lane) || (view.only && !shape.pins.length)) return false;
  return !view.query || textOf(shape).includes(view.query);
}

const texts = new Map();
function textOf(shape) {
  if (!texts.has(shape)) {
    const lines = shape.lines.flatMap((line) => {
      const site = siteOf(line);
      return [line.kind, line.words, `${site.file}:${site.number}`, site.where, site.text || ""];
    });
    const pins = shape.pins.flatMap((pin) => Object.values(data.findings[pin]));
    texts.set(shape, [laneName(shape.lane), shape.ended, ...lines, ...pins].join("\n").toLowerCase());
  }
  return texts.get(shape);
}

function show(from, to) {
  const size = Math.min(total, Math.max(FEWEST, Math.round(to - from)));
  view.from = Math.max(0, Math.min(Math.round(from), total - size));
  view.to = view.from + size;
}

function zoom(factor) {
  const size = (view.to - view.from) * factor;
  const inside = view.chosen >= view.from && view.chosen < view.to;
  const middle = inside ? view.chosen + 0.5 : (view.from + view.to) / 2;
  show(middle - size / 2, middle + size / 2);
}

function pan(share) {
  const by = Math.max(1, Math.round((view.to - view.from) * Math.abs(share))) * Math.sign(share);
  show(view.from + by, view.to + by);
}

function choose(place) {
  if (place < 0 || place >= total) return;
  view.chosen = place;
  view.page = place;
  const size = view.to - view.from;
  if (place < view.from || place >= view.to) show(place - size / 2, place + size / 2);
}
