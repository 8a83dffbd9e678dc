// Why a label: its words in the text, its way through the tree, labels like it, training texts like this one.

import { about, similar } from "./about.js";
import { get, latest, post } from "./api.js";
import { bar } from "./bars.js";
import { bdi, button, h } from "./dom.js";
import { mark, unmark } from "./editor.js";
import { brief, count, margin, percent, signed } from "./format.js";
import { added } from "./highlight.js";
import { guarded } from "./notices.js";
import { state } from "./state.js";

const WORDS = 8; // shown as a list
const request = latest();

export function closeDetail() {
  request.stop();
  unmark();
}

export const openDetail = guarded("explain", async (place, label) => {
  const signal = request.signal(),
    model = state.facts.id;
  place.setAttribute("aria-busy", "true");
  try {
    const [explained, item] = await Promise.all([
      post("explain", { text: state.text, labels: [label.id], model }, signal),
      get("labels/item", { id: label.id, model }, signal),
    ]);
    place.replaceChildren(...sections(item, explained.explanations[0]));
  } finally {
    place.removeAttribute("aria-busy");
  }
});

function sections(item, explanation) {
  const known = about(item);
  if (!explanation)
    return present([...known, h("p", { class: "soft" }, "The model did not rank this label for the text.")]);
  const why = h("div", { class: "why" });
  show(why, explanation, strongest(explanation.members));
  const near = explanation.neighbours?.map((each) => ({ ...each, name: each.label })) ?? item.similar;
  return present([...known, why, similar(near), texts(explanation.texts)]);
}

const present = (elements) => elements.filter((element) => element !== null);
const strongest = (members) => members.reduce((best, each) => (each.weight > best.weight ? each : best));

/** The words and the way of one member; several members can be chosen from. */
function show(place, explanation, member) {
  const words = h("div");
  const way = h("div", { class: "way" });
  const choose = (step) => {
    const found = step ? step.words : added(member.steps);
    mark(found);
    words.replaceChildren(...wordList(found));
    for (const each of way.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.step === step));
  };
  way.append(...steps(member, choose));
  place.replaceChildren(
    ...present([sources(explanation, member, (other) => show(place, explanation, other)), words, way]),
  );
  choose(null);
}

function wordList(words) {
  if (!words.length) return [h("h4", {}, "Words"), h("p", { class: "soft" }, "No word of the text moved this label.")];
  const most = Math.abs(words[0].contribution);
  const item = ({ term, contribution }) =>
    h(
      "li",
      {},
      bdi(term),
      bar(Math.abs(contribution) / most, contribution < 0 ? "against" : "for"),
      h("span", { class: "value" }, signed(contribution)),
    );
  const rest =
    words.length > WORDS ? [h("p", { class: "soft" }, `and ${count(words.length - WORDS)} smaller contributions`)] : [];
  return [h("h4", {}, "Words"), h("ul", { class: "words" }, words.slice(0, WORDS).map(item)), ...rest];
}

/** The levels of the tree on the way to the label; nothing where there is one level only. */
function steps(member, choose) {
  if (member.steps.length < 2) return [];
  const step = (each, place) => {
    const last = place === member.steps.length - 1;
    const name = last ? "this label" : each.names.map((label) => brief(label, 32)).join(", ");
    const press = button(
      [h("span", { class: "step-name" }, bdi(name)), h("span", { class: "value" }, margin(each.margin))],
      () => choose(each),
      { class: "step", "aria-pressed": "false", title: each.names.join("\n") },
    );
    press.step = each;
    return h("li", {}, press);
  };
  const all = button("all steps", () => choose(null), { class: "step whole", "aria-pressed": "true" });
  all.step = null;
  return [
    h("h4", {}, "Path through the tree, with margins"),
    h("ol", { class: "steps" }, h("li", {}, all), member.steps.map(step)),
  ];
}

function sources(explanation, chosen, choose) {
  const { joined, members } = explanation;
  if (members.length < 2) return null;
  const part = (source) => {
    const found = joined?.sources?.[source]?.part;
    return typeof found === "number" ? ` ${signed(found)}` : "";
  };
  const one = (member) =>
    button(`${member.recipe}${part(member.source)}`, () => choose(member), {
      class: "step",
      "aria-pressed": String(member === chosen),
    });
  return h("div", { class: "sources" }, h("h4", {}, "Sources"), h("div", { class: "actions" }, members.map(one)));
}

function texts(found) {
  if (!found?.length) return null;
  const one = (each) =>
    h(
      "li",
      {},
      h("span", { class: "value" }, percent(each.similarity)),
      " ",
      bdi(brief(each.text ?? `row ${count(each.row)}`, 240)),
    );
  return h(
    "div",
    {},
    h("h4", {}, "Nearest training texts with this label"),
    h("ul", { class: "near" }, found.map(one)),
  );
}
