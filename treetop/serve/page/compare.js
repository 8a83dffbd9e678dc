// The compare tab: what two models say of one text, side by side.

import { latest, post } from "./api.js";
import { bar, byProbability, shares } from "./bars.js";
import { $, bdi, debounced, h, options } from "./dom.js";
import { percent, plural, probability, score } from "./format.js";
import { guarded } from "./notices.js";
import { offer, onOpen } from "./route.js";
import { emit, on, state } from "./state.js";

const WAIT = 150; // milliseconds
const LABELS = 10;
const request = latest();
let sides = []; // {select, list}

export function startCompare() {
  const field = $("compare-text"),
    later = debounced(WAIT, () => compare());
  field.addEventListener("input", () => {
    state.text = field.value;
    emit("text");
  });
  on("text", () => {
    if (field.value !== state.text) field.value = state.text;
    if (!$("compare").hidden) later();
  });
  on("model", () => offer("compare", state.models.length > 1));
  onOpen("compare", () => {
    build();
    compare();
  });
}

function build() {
  if (sides.length) return;
  sides = [0, 1].map((number) => {
    const select = h("select", { id: `side-${number}`, onchange: () => compare() });
    options(
      select,
      state.models.map(({ id, recipe }) => [id, id === recipe ? id : `${id} (${recipe})`]),
      state.models[number].id,
    );
    return { select, list: h("ol", { class: "rows" }) };
  });
  const side = ({ select, list }, number) =>
    h(
      "div",
      { class: "sheet" },
      h("div", { class: "head wrap" }, h("h3", {}, h("label", { for: select.id }, `Model ${number + 1}`)), select),
      list,
    );
  $("sides").replaceChildren(...sides.map(side));
}

const compare = guarded("compare", async () => {
  const text = state.text;
  if (!text.trim()) return show([{ labels: [] }, { labels: [] }]);
  const signal = request.signal();
  const ask = ({ select }) => post("predict", { texts: [text], k: LABELS, model: select.value }, signal);
  const answers = await Promise.all(sides.map(ask));
  show(answers.map(({ results }) => ({ ...results[0], labels: byProbability(results[0].labels) })));
});

function show(results) {
  const [first, second] = results.map((result) => new Map(result.labels.map((label, place) => [label.id, place])));
  const common = [...first.keys()].filter((id) => second.has(id)).length;
  sides[0].list.replaceChildren(...rows(results[0], second));
  sides[1].list.replaceChildren(...rows(results[1], first));
  $("compare-says").textContent =
    first.size + second.size ? `${common} of ${plural(Math.max(first.size, second.size), "label")} in both` : "";
}

function rows({ labels, unknown }, other) {
  if (unknown) return [h("li", { class: "soft" }, "The model knows nothing of this text.")];
  const share = shares(labels);
  return labels.map((label, place) => {
    const sure = label.probability !== null;
    const there = other.has(label.id) ? moved(place - other.get(label.id)) : "only here";
    return h(
      "li",
      { class: other.has(label.id) ? "row both" : "row single" },
      h(
        "div",
        { class: "row-head" },
        h("span", { class: "name", title: label.name }, bdi(label.name)),
        bar(share[place]),
        h(
          "span",
          { class: "value", title: sure ? percent(label.probability, 1) : "Score" },
          sure ? probability(label.probability) : score(label.score),
        ),
        h("span", { class: "place" }, there),
      ),
    );
  });
}

/** How a label's place differs from the one in the other list. */
function moved(places) {
  if (places === 0) return "same place";
  return places < 0 ? `${-places} higher` : `${places} lower`;
}
