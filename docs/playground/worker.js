// Python and the linter, beside the page, so that it never freezes. Loads from this folder only.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const ready = (async () => {
  const here = new URL(".", import.meta.url);
  const python = await loadPyodide({ indexURL: new URL("pyodide/", here).href });
  postMessage({ kind: "loading", what: "the linter" });
  for (const name of ["gradkeeper.zip", "bridge.py"]) {
    const answer = await fetch(new URL(name, here));
    if (!answer.ok) throw new Error(`${name} is not there`);
    const raw = new Uint8Array(await answer.arrayBuffer());
    if (name.endsWith(".zip")) python.unpackArchive(raw, "zip", { extractDir: "/lib/gradkeeper" });
    else python.FS.writeFile(`/lib/gradkeeper/${name}`, raw);
  }
  python.runPython("import sys; sys.path.insert(0, '/lib/gradkeeper')");
  return python.pyimport("bridge");
})();

ready.then(
  (bridge) => postMessage({ kind: "ready", examples: JSON.parse(bridge.examples()), version: bridge.version() }),
  (error) => postMessage({ kind: "failed", error: String(error) }),
);

onmessage = async ({ data }) => {
  const bridge = await ready;
  try {
    postMessage({ kind: "checked", number: data.number, told: JSON.parse(bridge.check(data.text)) });
  } catch (error) {
    postMessage({ kind: "failed", number: data.number, error: String(error) });
  }
};
