// The batch tab: files in, labels of every text out, with progress, stop and download.

import { byProbability } from "./bars.js";
import { $, bdi, h, options } from "./dom.js";
import { asCsv, asJsonl, download } from "./download.js";
import { documents, dropped, path, readable } from "./files.js";
import { brief, count, duration, percent, plural, probability, score } from "./format.js";
import { announce, guarded, problem } from "./notices.js";
import { openTab } from "./route.js";
import { run } from "./runner.js";
import { on, state } from "./state.js";
import { virtualList } from "./virtual.js";

let list = null,
  results = [],
  failed = 0,
  stopper = null;

export function startBatch() {
  list = virtualList($("rows"), "Texts with their labels", draw, () => {});
  const files = $("files"),
    folder = $("folder");
  $("pick-files").addEventListener("click", () => files.click());
  $("pick-folder").addEventListener("click", () => folder.click());
  for (const input of [files, folder]) {
    input.addEventListener("change", () => {
      begin([...input.files]);
      input.value = "";
    });
  }
  dropping($("drop"));
  addEventListener("beforeunload", (event) => stopper && event.preventDefault());
  $("stop").addEventListener("click", () => stopper?.abort());
  $("as-csv").addEventListener("click", () => download("labels.csv", "text/csv;charset=utf-8", asCsv(results)));
  $("as-jsonl").addEventListener("click", () => download("labels.jsonl", "application/x-ndjson", asJsonl(results)));
  on("model", showKeep);
}

function showKeep() {
  const precisions = (state.facts.calibration?.thresholds ?? []).filter((entry) => entry.threshold !== null);
  const choices = precisions.map(({ precision }) => [
    precision,
    `labels above the line at ${percent(precision)} precision`,
  ]);
  options($("batch-keep"), [["", "all labels"], ...choices], "");
}

/** Files may be dropped anywhere: the browser would open them instead of the page otherwise. */
function dropping(zone) {
  const over = (inside) => (event) => {
    if (!event.dataTransfer.types.includes("Files")) return; // a piece of text, for a text field
    event.preventDefault();
    zone.classList.toggle("over", inside);
  };
  document.addEventListener("dragover", over(true));
  document.addEventListener("dragleave", over(false));
  document.addEventListener("drop", async (event) => {
    over(false)(event);
    if (!event.defaultPrevented) return;
    openTab("batch");
    begin(await dropped(event.dataTransfer));
  });
}

const begin = guarded("batch", async (given) => {
  if (stopper) throw new Error("A batch is running. Stop it before you begin another.");
  const files = given.filter(readable).sort((a, b) => (path(a) < path(b) ? -1 : 1));
  if (!files.length) {
    const name = given.length === 1 ? path(given[0]) : plural(given.length, "file");
    throw new Error(`${name}: not readable here. Drop .csv, .tsv, .jsonl or .txt.`);
  }
  await tag(files, given.length - files.length);
});

async function tag(files, ignored) {
  const bytes = files.reduce((sum, file) => sum + file.size, 0),
    began = performance.now();
  let read = 0;
  reset();
  const controller = (stopper = new AbortController());
  const show = (ending = "") => says(Math.min(1, read / Math.max(1, bytes)), began, ending, ignored);
  const push = (some) => {
    results.push(...some);
    failed += some.filter((result) => result.error).length;
    list.grow(results.length);
    show();
  };
  try {
    await run(
      documents(files, (more) => (read += more)),
      request(),
      push,
      controller.signal,
    );
    show(controller.signal.aborted ? "Stopped" : "Done");
  } catch (error) {
    show("Stopped by an error");
    throw error;
  } finally {
    stopper = null;
    $("stop").disabled = true;
    $("as-csv").disabled = $("as-jsonl").disabled = results.length === 0;
  }
}

function request() {
  const k = Number($("batch-k").value);
  if (!(Number.isInteger(k) && k >= 1 && k <= 1000))
    throw new Error("Labels per text: give a whole number from 1 to 1,000.");
  const keep = $("batch-keep").value;
  return { k, model: state.facts.id, ...(keep ? { precision: Number(keep) } : {}) };
}

function reset() {
  results = [];
  failed = 0;
  list.use({ total: 0, page: async (offset, limit) => results.slice(offset, offset + limit) });
  problem("batch", null);
  $("run").hidden = false;
  $("progress").value = 0;
  $("progress-says").textContent = "";
  $("stop").disabled = false;
  $("as-csv").disabled = $("as-jsonl").disabled = true;
}

function says(share, began, ending, ignored) {
  const seconds = (performance.now() - began) / 1000;
  const done = ending === "Done" ? 1 : share;
  $("progress").value = done;
  const parts = [ending, plural(results.length, "text"), failed ? `${count(failed)} not labelled` : ""];
  if (ignored) parts.push(`${plural(ignored, "other file")} ignored`);
  if (ending) parts.push(`in ${duration(seconds)}`);
  else if (share > 0 && share < 1 && seconds > 2) parts.push(`about ${duration((seconds / share) * (1 - share))} left`);
  $("progress-says").textContent = parts.filter(Boolean).join(" · ");
  if (ending) announce($("progress-says").textContent);
}

function draw(result) {
  const text = h(
    "span",
    { class: "row-name", title: brief(result.text ?? "", 500) },
    bdi(brief(result.text ?? result.id, 120)),
  );
  if (result.error) return [text, h("span", { class: "failed", title: result.error }, brief(result.error, 120))];
  const shown = byProbability(result.labels).map(
    (label) =>
      `${brief(label.name, 40)} ${label.probability === null ? score(label.score) : probability(label.probability)}`,
  );
  const none = result.unknown ? "nothing known of this text" : "no labels";
  return [text, h("span", { class: "row-labels", title: shown.join("\n") }, bdi(shown.join(" · ") || none))];
}
