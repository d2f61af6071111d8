// The windows of the run, read from the page. Repetitions are kept as such: [shapes, times].

const data = JSON.parse(document.getElementById("data").textContent);
const runs = [];
let total = 0;

{
  const before = data.lanes.map(() => 0);
  for (const [shapes, times] of data.runs) {
    const cycle = data.lanes.map(() => 0);
    const ordinals = shapes.map((shape) => cycle[data.shapes[shape].lane]++);
    runs.push({ start: total, shapes, times, ordinals, cycle, before: [...before] });
    total += shapes.length * times;
    cycle.forEach((many, lane) => { before[lane] += many * times; });
  }
}

const LINE = ["kind", "site", "words", "credit", "debit", "lost", "waiting", "left", "times"];
for (const shape of data.shapes) {
  shape.lines = shape.lines.map((line) => Object.fromEntries(LINE.map((name, i) => [name, line[i]])));
  shape.fates = fatesOf(shape);
}

/** What became of the window's backwards, in order: [fate, how many]. */
function fatesOf(shape) {
  const fates = [];
  let waiting = 0;
  const settle = (fate, many) => { if (many) fates.push([fate, many]); };
  for (const line of shape.lines) {
    if (line.kind === "zero" || line.kind === "assign") {
      settle(line.lost ? "lost" : "dropped", waiting);
      waiting = 0;
    } else if (line.debit) {
      settle("spent", waiting || line.debit);
      waiting = 0;
    }
    waiting += line.credit;
  }
  settle("waiting", waiting);
  return fates;
}

function runAt(place) {
  let low = 0, high = runs.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (runs[middle].start <= place) low = middle; else high = middle - 1;
  }
  return runs[low];
}

function shapeAt(place) {
  const run = runAt(place);
  return data.shapes[run.shapes[(place - run.start) % run.shapes.length]];
}

/** Which window of its lane it is, from 1: the step, as its optimizer counts. */
function stepAt(place) {
  const run = runAt(place);
  const at = (place - run.start) % run.shapes.length;
  const cycles = Math.floor((place - run.start) / run.shapes.length);
  const { lane } = data.shapes[run.shapes[at]];
  return run.before[lane] + cycles * run.cycle[lane] + run.ordinals[at] + 1;
}

/** Calls back with every shape from..to and how often; a long repetition costs one round. */
function eachShape(from, to, see) {
  for (let place = from; place < to;) {
    const run = runAt(place);
    const end = Math.min(to, run.start + run.shapes.length * run.times);
    const rounds = Math.floor((end - place) / run.shapes.length);
    if (rounds > 1) {
      for (const shape of run.shapes) see(data.shapes[shape], rounds);
      place += rounds * run.shapes.length;
    }
    for (; place < end; place++) {
      see(data.shapes[run.shapes[(place - run.start) % run.shapes.length]], 1);
    }
  }
}

/** The next place in a direction whose shape is wanted, or -1. */
function seek(place, direction, wanted) {
  while (place >= 0 && place < total) {
    const run = runAt(place);
    if (!run.shapes.some((shape) => wanted(data.shapes[shape]))) {
      place = direction > 0 ? run.start + run.shapes.length * run.times : run.start - 1;
      continue;
    }
    if (wanted(shapeAt(place))) return place;
    place += direction;
  }
  return -1;
}

function siteOf(line) {
  const [file, number, where, text] = data.sites[line.site];
  return { file, number, where, text, short: `${file.split("/").pop()}:${number}` };
}

function laneName(lane) {
  const { name, where } = data.lanes[lane];
  return where ? `${name}, ${where}` : name;
}

function severityOf(shape) {
  const found = shape.pins.map((pin) => data.findings[pin].severity);
  return ["error", "warning", "info"].find((one) => found.includes(one));
}
