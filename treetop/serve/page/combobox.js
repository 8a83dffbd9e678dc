// Search of a label by typing: the editable combobox with a list box of the ARIA practices.

import { get, latest } from "./api.js";
import { bdi, debounced, h } from "./dom.js";
import { brief, count, plural } from "./format.js";
import { announce, guarded } from "./notices.js";
import { state } from "./state.js";

const WAIT = 80; // milliseconds
const SHOWN = 20;

/** Build a combobox in `place`; `onchoose` gets the label. */
export function combobox(place, title, onchoose) {
  const id = place.id;
  const list = h("ul", { id: `${id}-list`, role: "listbox", "aria-label": title, hidden: true });
  const input = h("input", {
    id: `${id}-input`,
    type: "text",
    role: "combobox",
    dir: "auto",
    autocomplete: "off",
    placeholder: "Search all labels",
    "aria-expanded": "false",
    "aria-controls": list.id,
    "aria-autocomplete": "list",
  });
  const request = latest();
  let found = [],
    active = -1;

  function close() {
    request.stop();
    list.hidden = true;
    found = [];
    activate(-1);
    input.setAttribute("aria-expanded", "false");
  }

  function activate(place_) {
    active = place_;
    [...list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === active)));
    if (active < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", list.children[active].id);
    list.children[active]?.scrollIntoView({ block: "nearest" });
  }

  function choose(place_) {
    const label = found[place_];
    if (!label) return;
    input.value = "";
    close();
    onchoose(label);
  }

  function show(answer) {
    found = answer.labels;
    list.replaceChildren(...found.map((label, i) => row(`${id}-${i}`, label, () => choose(i))));
    if (!found.length)
      list.append(h("li", { class: "none", role: "option", "aria-disabled": "true" }, "No label has this name."));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    activate(-1);
    announce(
      found.length < answer.total ? `${found.length} of ${count(answer.total)} labels` : plural(found.length, "label"),
    );
  }

  const search = guarded("search", async () => {
    const query = input.value.trim();
    if (!query) return close();
    show(await get("labels", { q: query, by: "prefix", limit: SHOWN, model: state.facts.id }, request.signal()));
  });

  input.addEventListener("input", debounced(WAIT, search));
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves && list.hidden) search();
    else if (event.key in moves && found.length)
      activate(
        (active + moves[event.key] + found.length + (active < 0 && event.key === "ArrowUp" ? 1 : 0)) % found.length,
      );
    else if (event.key === "Enter" && !list.hidden) choose(Math.max(0, active));
    else if (event.key === "Escape" && !list.hidden) close();
    else if (event.key === "Escape") input.value = "";
    else return;
    event.preventDefault();
  });
  place.append(h("label", { for: input.id }, title), input, list);
}

function row(id, label, onclick) {
  const text =
    label.text && label.text !== label.name ? h("span", { class: "soft" }, bdi(brief(label.text, 90))) : null;
  const option = h(
    "li",
    { id, role: "option", "aria-selected": "false", onclick },
    h("span", { class: "option-name" }, bdi(brief(label.name, 160))),
    h("span", { class: "value", title: "Training texts" }, count(label.count)),
    text,
  );
  option.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  return option;
}
