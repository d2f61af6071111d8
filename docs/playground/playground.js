// The page's side: what is typed goes to the worker, what comes back is shown. Text only, never markup.
const pause = 400;
const get = (name) => document.getElementById(name);
const [code, numbers, state, list, examples] = ["code", "numbers", "state", "findings", "examples"].map(get);
const worker = new Worker("worker.js", { type: "module" });
let number = 0;
let timer = 0;
let mended = null;

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function say(text, mood = "") {
  state.textContent = text;
  state.className = `state ${mood}`;
}

function number_lines(findings = []) {
  const marks = new Map(findings.map((one) => [one.line, one.severity]));
  const count = code.value.split("\n").length;
  numbers.replaceChildren(
    ...Array.from({ length: count }, (_, index) => [element("b", marks.get(index + 1), String(index + 1)), "\n"]).flat(),
  );
  numbers.scrollTop = code.scrollTop;
}

function go_to(line) {
  const lines = code.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  code.focus();
  code.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  code.scrollTop = Math.max(0, (line - 6) * 20);
}

function card(finding) {
  const item = element("li", finding.severity);
  const place = element("button", "place", `line ${finding.line}`);
  place.type = "button";
  place.addEventListener("click", () => go_to(finding.line));
  const head = element("p");
  head.append(place, ` ${finding.rule} ${finding.name}${finding.when ? `, where ${finding.when}` : ""}`);
  item.append(head, element("p", "what", finding.message), element("p", "quiet", finding.detail));
  for (const one of finding.because) item.append(element("p", "quiet", `line ${one.line}: ${one.note}`));
  if (finding.remedy) item.append(element("p", "", `remedy: ${finding.remedy}`));
  const more = element("details");
  more.append(element("summary", "quiet", `explain ${finding.rule}`), element("pre", "", finding.document));
  item.append(more);
  return item;
}

function show_diff(text) {
  get("fix").hidden = !text;
  const kinds = { "+": "added", "-": "removed", "@": "where" };
  const lines = text.split("\n").filter((line) => line && !/^(---|\+\+\+) /.test(line));
  get("diff").replaceChildren(...lines.map((line) => element("span", kinds[line[0]] ?? "", line)));
}

function show(told) {
  say(told.said, told.findings.length ? "error" : "good");
  list.replaceChildren(...told.findings.map(card));
  number_lines(told.findings);
  mended = told.mended;
  show_diff(told.diff);
  get("story").hidden = !told.statement;
  if (told.statement) get("statement").srcdoc = told.statement;
}

function check_now() {
  clearTimeout(timer);
  number += 1;
  worker.postMessage({ number, text: code.value });
}

worker.onmessage = ({ data }) => {
  if (data.kind === "loading") say(`Loading ${data.what} …`);
  if (data.kind === "failed") say(`It failed: ${data.error}`, "error");
  if (data.kind === "checked" && data.number === number) show(data.told);
  if (data.kind === "ready") {
    const some = data.examples.map((one) => new Option(`${one.rule} ${one.name}`, one.code));
    examples.append(new Option("choose a fault", ""), ...some);
    examples.disabled = false;
    say("Checking …");
    check_now();
  }
};
worker.onerror = (event) => say(`Python could not be loaded: ${event.message ?? "the worker failed"}`, "error");

code.addEventListener("input", () => {
  number_lines();
  clearTimeout(timer);
  timer = setTimeout(check_now, pause);
});
code.addEventListener("scroll", () => (numbers.scrollTop = code.scrollTop));
examples.addEventListener("change", () => {
  if (!examples.value) return;
  code.value = examples.value;
  check_now();
});
get("apply").addEventListener("click", () => {
  code.value = mended;
  check_now();
});
number_lines();
