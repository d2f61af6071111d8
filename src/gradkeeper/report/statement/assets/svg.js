// Small helpers that build elements; text always goes in as text.

function make(name, facts = {}, ...children) {
  return fill(document.createElement(name), facts, children);
}

function svg(name, facts = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), facts, children);
}

function fill(element, facts, children) {
  for (const [name, value] of Object.entries(facts)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

let GUTTER = 128;
/** How wide charts are drawn, if not as wide as the screen: paper has its own width. */
let paper = 0;

function canvas(height, label) {
  const width = paper || Math.max(320, document.getElementById("timeline").clientWidth);
  GUTTER = width < 600 ? 106 : 128;
  return { width, root: svg("svg", {
    viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img", "aria-label": label }) };
}

/** From a window's place to the middle of its column. */
function across(width) {
  const column = (width - GUTTER - 8) / (view.to - view.from);
  return { column, at: (place) => GUTTER + (place - view.from + 0.5) * column };
}

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
