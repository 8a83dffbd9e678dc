// One label as a page shows it: name, facts, text, labels like it.

import { bdi, button, h } from "./dom.js";
import { brief, plural, probability } from "./format.js";
import { showLabel } from "./route.js";

/** Name, facts and text of a label. */
export function about(item) {
  const facts = [`id ${item.id}`, `in ${plural(item.count, "training text")}`];
  if (item.status === "retired") facts.push("retired");
  const text = item.text && item.text !== item.name ? h("p", { class: "prose", dir: "auto" }, item.text) : null;
  const title = h("h3", { class: "full", dir: "auto" }, item.name);
  return [title, h("p", { class: "soft" }, facts.join(" · ")), text, vocabulary(item)];
}

/** Other names, broader and related labels; null where the vocabulary has none. */
function vocabulary({ alt = [], broader = [], related = [] }) {
  const link = ({ id, name }) => button(bdi(brief(name, 90)), () => showLabel(id), { class: "link", title: name });
  const row = (title, parts) =>
    parts.length ? [h("dt", {}, title), ...parts.map((part) => h("dd", {}, part))] : [];
  const rows = [
    ...row("also called", alt.map((name) => bdi(name))),
    ...row("broader", broader.map(link)),
    ...row("related", related.map(link)),
  ];
  return rows.length ? h("dl", { class: "vocabulary" }, rows) : null;
}

/** Links to similar labels; null where there are none. */
export function similar(labels) {
  if (!labels?.length) return null;
  const one = ({ id, name, similarity }) => {
    const shown = [bdi(brief(name, 90)), " ", h("span", { class: "value" }, probability(similarity))];
    return h(
      "li",
      {},
      button(shown, () => showLabel(id), { class: "link", title: name }),
    );
  };
  return h("div", {}, h("h4", {}, "Similar labels"), h("ul", { class: "near" }, labels.map(one)));
}
