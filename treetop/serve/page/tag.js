// The first tab: a text, its labels as it is typed, and what the person makes of them.

import { latest, post } from "./api.js";
import { byProbability } from "./bars.js";
import { combobox } from "./combobox.js";
import { closeDetail } from "./detail.js";
import { $, debounced, options, segments } from "./dom.js";
import { startEditor, unmark } from "./editor.js";
import { percent, plural, probability } from "./format.js";
import { announce, guarded } from "./notices.js";
import { acceptLine, emit, on, state } from "./state.js";
import { aboveLine, explainOpen, focusRow, showSuggestions, showVerdicts } from "./suggestions.js";
import { judge, startVerdicts, verdict } from "./verdicts.js";

const WAIT = 120; // milliseconds without a key before the server is asked
const DEPTHS = [5, 10, 20, 50, 100];
const request = latest();
let answer = null; // {text, result} of the last answer

export function startTag() {
  startEditor();
  startVerdicts();
  options(
    $("depth"),
    DEPTHS.map((k) => [k, `${k} labels`]),
    state.depth,
  );
  $("depth").addEventListener("change", () => {
    state.depth = Number($("depth").value);
    suggest();
  });
  const later = debounced(WAIT, suggest);
  on("text", () => {
    request.stop();
    closeDetail(); // words of the text before are elsewhere now
    facts();
    later();
  });
  on("model", () => {
    showPrecisions();
    suggest();
  });
  on("verdicts", showVerdicts);
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) focusRow(0);
  });
  $("accept-all").addEventListener("click", acceptAll);
  combobox($("add"), "Add a label", (label) => judge(label, "add"));
}

const suggest = guarded("predict", async () => {
  const text = state.text,
    list = $("suggestions");
  if (!text.trim()) {
    request.stop();
    answer = null;
    return show();
  }
  list.setAttribute("aria-busy", "true");
  const asked = { texts: [text], k: state.depth, model: state.facts.id };
  const { results } = await post("predict", asked, request.signal()).finally(() => list.removeAttribute("aria-busy"));
  answer = { text, result: results[0] };
  show();
  explainOpen();
});

function show() {
  unmark();
  showSuggestions(byProbability(answer?.result.labels ?? []));
  facts();
  showLine();
}

function facts() {
  const parts = [plural([...state.text].length, "character")];
  const known = answer?.text === state.text ? answer.result.known_words : null;
  if (known !== null && known !== undefined) parts.push(`${percent(known)} of words known to the model`);
  $("text-facts").textContent = state.text ? parts.join(" · ") : "";
}

function showLine() {
  const line = acceptLine(),
    above = aboveLine().length,
    labels = answer?.result.labels ?? [];
  $("accept-all").hidden = above === 0;
  $("line-says").textContent = sentence(line, labels);
  if (answer)
    announce(`${plural(labels.length, "label")}${line === undefined ? "" : `, ${above} above the accept line`}`);
}

function sentence(line, labels) {
  if (!answer) return `${plural(state.facts.labels, "label")}, learnt from ${plural(state.facts.documents, "text")}.`;
  if (answer.result.unknown) return "The model knows nothing of this text: no word of it was in the training texts.";
  if (!labels.length) return "No labels.";
  if (line === undefined)
    return "This model is not calibrated: bars show scores, which rank labels and mean nothing else.";
  if (line === null) return `No threshold reached a precision of ${percent(state.precision)} on held-out texts.`;
  if (aboveLine().length === 0) return "None of these labels reaches the accept line.";
  const cut = labels.length === state.depth && labels.length < state.facts.labels;
  if (cut && aboveLine().length === labels.length)
    return `All ${labels.length} shown are above the line; there may be more. Show more labels to see them.`;
  return "";
}

function showPrecisions() {
  const found = state.facts.calibration?.thresholds ?? [];
  $("precision").hidden = found.length === 0;
  if (found.length && !found.some((entry) => entry.precision === state.precision)) state.precision = found[0].precision;
  const choices = found.map(({ precision, threshold, accepted }) => [
    precision,
    percent(precision),
    title(threshold, accepted),
  ]);
  segments($("precision"), "precision", choices, state.precision, (value) => {
    state.precision = value;
    show();
    explainOpen();
    emit("precision");
  });
}

function title(threshold, accepted) {
  if (threshold === null) return "Not reached on held-out texts";
  const share = typeof accepted === "number" ? `; finds ${percent(accepted)} of a text's labels` : "";
  return `Probability of ${probability(threshold)} or more${share}`;
}

async function acceptAll() {
  for (const label of aboveLine()) {
    if (verdict(label.id) === undefined) await judge(label, "accept");
  }
}
