// The ranked labels of the text, with bars, and the line above which they may be accepted.

import { bar, resize, shares } from "./bars.js";
import { closeDetail, openDetail } from "./detail.js";
import { $, bdi, button, h } from "./dom.js";
import { percent, probability, score } from "./format.js";
import { acceptLine, state } from "./state.js";
import { judge, verdict } from "./verdicts.js";

let rows = []; // {label, element}
let open = ""; // id of the label that is explained
let current = 0; // row that the keyboard is on

export const openLabel = () => open;
export const aboveLine = () => {
  const line = acceptLine();
  return rows.map((row) => row.label).filter((label) => typeof line === "number" && label.probability >= line);
};

/** Show ranked labels; one that is explained stays open while it is among them. */
export function showSuggestions(labels) {
  const kept = new Map(rows.map((row) => [row.label.id, row]));
  const share = shares(labels);
  rows = labels.map((label, place) => {
    const row = kept.get(label.id) ?? newRow(label);
    fill(row, label, share[place]);
    return row;
  });
  if (!rows.some((row) => row.label.id === open)) forgetOpen();
  current = Math.min(current, Math.max(0, rows.length - 1));
  const list = $("suggestions");
  list.replaceChildren(...withLine());
  roving();
}

function withLine() {
  const line = acceptLine();
  const elements = rows.map((row) => row.element);
  if (typeof line !== "number" || !rows.length) return elements;
  const above = rows.filter((row) => row.label.probability >= line).length;
  rows.forEach((row, place) => row.element.classList.toggle("below", place >= above));
  const right = `above it, ${percent(state.precision)} were right on held-out texts`;
  const says = `accept line at ${probability(line)}: ${right}`;
  elements.splice(above, 0, h("li", { class: "line" }, h("span", {}, says)));
  return elements;
}

function newRow(label) {
  const row = { label, element: h("li", { class: "row" }), name: null };
  row.name = button(bdi(label.name), () => toggle(row), { class: "name", "aria-expanded": "false", title: label.name });
  row.value = h("span", { class: "value" });
  row.bar = bar(0);
  row.accept = mark("✓", "accept", row);
  row.reject = mark("✗", "reject", row);
  row.detail = h("div", { class: "detail", hidden: true });
  const head = h("div", { class: "row-head" }, row.name, row.bar, row.value, row.accept, row.reject);
  row.element.append(head, row.detail);
  row.element.addEventListener("keydown", (event) => keys(event, row));
  row.element.addEventListener("focusin", () => roving(rows.indexOf(row)));
  return row;
}

function mark(sign, said, row) {
  const name = `${said === "accept" ? "Accept" : "Reject"} ${row.label.name}`;
  return button(sign, () => judge(row.label, said), {
    class: `verdict ${said}`,
    "aria-label": name,
    title: name.slice(0, 6),
  });
}

function fill(row, label, share) {
  row.label = label;
  const sure = label.probability !== null;
  row.value.textContent = sure ? probability(label.probability) : score(label.score);
  row.value.title = sure ? "Probability" : "Score; this model is not calibrated";
  resize(row.bar, share);
  row.element.classList.remove("below");
  showVerdict(row);
}

function showVerdict(row) {
  const said = verdict(row.label.id);
  row.element.dataset.verdict = said ?? "";
  row.accept.setAttribute("aria-pressed", String(said === "accept" || said === "add"));
  row.reject.setAttribute("aria-pressed", String(said === "reject"));
}

export function showVerdicts() {
  rows.forEach(showVerdict);
}

function toggle(row) {
  const same = row.label.id === open;
  forgetOpen();
  if (same) return;
  open = row.label.id;
  row.name.setAttribute("aria-expanded", "true");
  row.detail.hidden = false;
  explainOpen();
}

/** Explain the open label again, as the text or the model has changed. */
export function explainOpen() {
  const row = rows.find((each) => each.label.id === open);
  if (row) openDetail(row.detail, row.label);
}

function forgetOpen() {
  const before = $("suggestions").querySelector("[aria-expanded=true]");
  if (before) {
    before.setAttribute("aria-expanded", "false");
    before.closest(".row").querySelector(".detail").hidden = true;
  }
  open = "";
  closeDetail();
}

// One row is in the tab order; arrows go to the others.

function roving(place = current) {
  if (place >= 0) current = place;
  rows.forEach((row, i) => {
    for (const part of [row.name, row.accept, row.reject]) part.tabIndex = i === current ? 0 : -1;
  });
}

export function focusRow(place) {
  const row = rows[Math.max(0, Math.min(rows.length - 1, place))];
  row?.name.focus();
}

function keys(event, row) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest(".detail")) return;
  const place = rows.indexOf(row);
  const moves = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: rows.length - 1 };
  if (event.key in moves) focusRow(moves[event.key]);
  else if (event.key === "a") judge(row.label, "accept");
  else if (event.key === "r") judge(row.label, "reject");
  else if (event.key === "Escape") $("text").focus();
  else return;
  event.preventDefault();
}
