// Bars beside labels and words; the number always stands beside them as text.

import { h } from "./dom.js";

/** A bar filled to a share of its width. */
export function bar(share, kind = "") {
  const element = h("span", { class: `bar ${kind}`, "aria-hidden": "true" }, h("span", { class: "fill" }));
  resize(element, share);
  return element;
}

export function resize(element, share) {
  element.firstChild.style.setProperty("inline-size", `${100 * Math.min(1, Math.max(0, share))}%`);
}

/** Lengths of the bars of labels: probabilities as they are, scores between the lowest (or 0) and the highest. */
export function shares(labels) {
  if (labels.some((label) => label.probability !== null)) return labels.map((label) => label.probability ?? 0);
  const values = labels.map((label) => label.score);
  const low = Math.min(0, ...values),
    high = Math.max(...values);
  return values.map((value) => (high > low ? (value - low) / (high - low) : 1));
}
