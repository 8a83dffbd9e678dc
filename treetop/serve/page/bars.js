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

/**
 * Labels in the order of their bars. The model ranks by score; what a score is worth differs between rare and frequent
 * labels, so probabilities need not fall from rank to rank. Without probabilities the model's order stays.
 */
export const byProbability = (labels) => labels.toSorted((a, b) => (b.probability ?? 0) - (a.probability ?? 0));

/** Lengths of the bars of labels: probabilities as they are, scores between the lowest (or 0) and the highest. */
export function shares(labels) {
  if (labels.some((label) => label.probability !== null)) return labels.map((label) => label.probability ?? 0);
  const values = labels.map((label) => label.score);
  const low = Math.min(0, ...values),
    high = Math.max(...values);
  return values.map((value) => (high > low ? (value - low) / (high - low) : 1));
}
