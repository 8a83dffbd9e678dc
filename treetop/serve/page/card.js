// The model card and report tabs.

import { url } from "./api.js";
import { $, h } from "./dom.js";
import { count, percent, probability } from "./format.js";
import { markdown } from "./markdown.js";
import { offer, onOpen } from "./route.js";
import { on, state } from "./state.js";
import { token } from "./token.js";

export function startCard() {
  on("model", () => {
    offer("report", state.facts.has_report);
    $("report-frame").removeAttribute("src");
    if (!$("report").hidden) showReport();
    $("card-text").replaceChildren(...markdown(state.facts.card));
    $("facts").replaceChildren(
      ...facts(state.facts).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    );
  });
  onOpen("report", showReport);
}

function facts(model) {
  const metrics = Object.entries(model.metrics ?? {}).filter(([, value]) => typeof value === "number");
  const lines = (model.calibration?.thresholds ?? []).map((entry) => [
    `Accept at ${percent(entry.precision)} precision`,
    line(entry),
  ]);
  return [
    ["Recipe", model.recipe],
    ["Version", model.version],
    ["Loaded", when(model.loaded_at)],
    ["Labels", count(model.labels)],
    ["Training texts", count(model.documents)],
    ["Probabilities", model.calibrated ? "calibrated" : "none: not calibrated"],
    ...lines,
    ...metrics.map(([name, value]) => [name, value.toFixed(2)]),
    ...(model.previous ? [["Version before", model.previous]] : []),
  ];
}

function line({ threshold, accepted }) {
  if (threshold === null) return "not reached";
  const share = typeof accepted === "number" ? `, finds ${percent(accepted)} of a text's labels` : "";
  return `${probability(threshold)}${share}`;
}

function when(time) {
  const date = new Date(time);
  return Number.isNaN(date.valueOf()) ? String(time) : date.toLocaleString();
}

/** A frame sends no Authorization header, so the token goes along as a cookie of this one address, for a moment. */
function showReport() {
  const frame = $("report-frame");
  const address = url("report", { model: state.facts.id });
  if (!state.facts.has_report || frame.getAttribute("src")) return;
  const secure = address.protocol === "https:" ? "; Secure" : "";
  const limits = `path=${address.pathname}; Max-Age=30; SameSite=Strict${secure}`;
  if (token()) document.cookie = `treetop-token=${encodeURIComponent(token())}; ${limits}`;
  frame.src = address;
}
