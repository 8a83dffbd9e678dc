// What the person says of labels: accepted, rejected, added. Each is sent at once where the server keeps feedback.

import { post } from "./api.js";
import { $, bdi, button, h } from "./dom.js";
import { announce, guarded } from "./notices.js";
import { emit, on, state } from "./state.js";

const COMPLETE = "“Save as complete” also says that no other label is right.";
const NOT_KEPT = "Choices stay in this page: the server was started without --feedback.";
const given = new Map(); // label id -> {label, verdict}

export const verdict = (id) => given.get(id)?.verdict;

const chosen = () => [...given.values()].filter((entry) => entry.verdict !== "reject").map((entry) => entry.label);

/** Send a verdict ("accept", "reject", "add") on a label; shown once the server has it. */
export const judge = guarded("feedback", async (label, said) => {
  if (verdict(label.id) === said) return;
  if (!state.text.trim()) throw new Error("There is no text yet. Type or paste one, then choose its labels.");
  const text = state.text;
  if (state.facts.accepts_feedback)
    await post("feedback", { text, label: label.id, verdict: said, model: state.facts.id });
  if (text !== state.text) return;
  given.set(label.id, { label, verdict: said });
  announce(`${{ accept: "Accepted", reject: "Rejected", add: "Added" }[said]}: ${label.name}`);
  emit("verdicts");
});

const saveSet = guarded("feedback", async () => {
  const labels = chosen().map((label) => label.id);
  await post("feedback", { text: state.text, labels, model: state.facts.id });
  announce(`Saved: ${labels.length} labels`);
  flash($("save"), "Saved");
});

const copy = guarded("copy", async () => {
  await navigator.clipboard.writeText(
    chosen()
      .map((label) => label.name)
      .join("\n"),
  );
  flash($("copy"), "Copied");
});

function flash(element, text) {
  const before = element.textContent;
  element.textContent = text;
  setTimeout(() => (element.textContent = before), 1500);
}

/** Whether a text is an edit of the one before: all of that is still there, or both begin and end alike for half. */
export function edited(before, now) {
  const most = Math.min(before.length, now.length);
  let start = 0,
    end = 0;
  while (start < most && before[start] === now[start]) start++;
  while (end < most - start && before[before.length - 1 - end] === now[now.length - 1 - end]) end++;
  return start + end === before.length || 2 * (start + end) >= Math.max(before.length, now.length);
}

export function startVerdicts() {
  let before = "",
    model = "";
  on("text", () => {
    if (given.size > 0 && !edited(before, state.text)) forget(); // labels of one text are not those of the next
    before = state.text;
  });
  on("model", () => {
    if (state.facts.id !== model) forget(); // a new version of the same model keeps them
    model = state.facts.id;
    $("save").hidden = !state.facts.accepts_feedback;
    $("save-means").textContent = state.facts.accepts_feedback ? COMPLETE : NOT_KEPT;
  });
  on("verdicts", show);
  $("save").addEventListener("click", saveSet);
  $("copy").addEventListener("click", copy);
}

function forget() {
  given.clear();
  emit("verdicts");
}

function show() {
  const labels = chosen();
  $("chosen").replaceChildren(...labels.map(chip));
  $("save").disabled = $("copy").disabled = labels.length === 0;
}

function chip(label) {
  const remove = button("×", () => judge(label, "reject"), { "aria-label": `Reject ${label.name}`, title: "Reject" });
  return h("li", { class: "chip" }, h("span", { title: label.name }, bdi(label.name)), remove);
}
