// The labels tab: all labels by search, or down the label tree; and one label in full.

import { about, similar } from "./about.js";
import { get, latest } from "./api.js";
import { $, bdi, button, debounced, h, segments } from "./dom.js";
import { brief, count, plural } from "./format.js";
import { announce, guarded, problem } from "./notices.js";
import { onOpen, openTab, takeWanted } from "./route.js";
import { on, state } from "./state.js";
import { judge } from "./verdicts.js";
import { virtualList } from "./virtual.js";

const WAIT = 100; // milliseconds
const PAGE = 100;
const WAYS = [
  ["prefix", "by name", "Names that contain words beginning so"],
  ["meaning", "by meaning", "Labels that the model ranks for these words"],
];
const request = latest();
let list = null,
  by = "prefix",
  fresh = true;
let trail = []; // [{node, name}] from the root

export function startBrowse() {
  list = virtualList($("shelf"), "Labels", draw, choose);
  segments($("find-by"), "find-by", WAYS, by, (value) => {
    by = value;
    refresh();
  });
  $("find").addEventListener(
    "input",
    debounced(WAIT, () => refresh()),
  );
  list.element.addEventListener("keydown", (event) => {
    if ((event.key === "Backspace" || event.key === "ArrowLeft") && trail.length > 1) goTo(trail.slice(0, -1));
  });
  on("model", () => {
    fresh = true;
    if (!$("labels").hidden) open();
  });
  onOpen("labels", open);
}

function open() {
  const id = takeWanted();
  if (fresh) {
    fresh = false;
    trail = [{ node: "", name: "All labels" }];
    $("label").replaceChildren(h("p", { class: "soft" }, "Choose a label to see its text, place and neighbours."));
    refresh();
  }
  if (id !== null) showItem(id);
}

function refresh() {
  const query = $("find").value.trim();
  if (query || !state.facts.has_tree) search(query);
  else goTo(trail);
}

/** A source of rows for the list: the first page is here, the next ones are fetched. */
function source(total, first, fetchMore) {
  const page = async (offset) => {
    if (offset === 0) return first;
    try {
      return await fetchMore(offset);
    } catch (error) {
      problem("browse", error);
      return null;
    }
  };
  return { total, page };
}

const search = guarded("browse", async (query) => {
  const ask = (offset, signal) => get("labels", { q: query, by, offset, limit: PAGE, model: state.facts.id }, signal);
  const answer = await ask(0, request.signal());
  $("crumbs").replaceChildren();
  say(plural(answer.total, "label") + (query ? " found" : ""));
  list.use(source(answer.total, answer.labels, async (offset) => (await ask(offset)).labels));
});

const goTo = guarded("browse", async (path) => {
  const node = path.at(-1).node;
  $("find").value = ""; // now: what is typed until the answer comes stays
  const ask = (offset, signal) =>
    get("tree", { node: node || null, offset, limit: PAGE, model: state.facts.id }, signal);
  const answer = await ask(0, request.signal());
  trail = path;
  crumbs();
  say(
    answer.total === answer.node.labels
      ? plural(answer.total, "label")
      : `${plural(answer.total, "branch", "branches")} with ${plural(answer.node.labels, "label")}`,
  );
  list.use(source(answer.total, answer.children, async (offset) => (await ask(offset)).children));
});

function say(text) {
  $("found").textContent = text;
  announce(text);
}

function crumbs() {
  const parts = trail.map((place, i) => {
    const name = brief(place.name, 28);
    if (i === trail.length - 1) return h("span", { "aria-current": "true", title: place.name }, bdi(name));
    return button(bdi(name), () => goTo(trail.slice(0, i + 1)), { class: "link", title: place.name });
  });
  $("crumbs").replaceChildren(
    ...parts.flatMap((part, i) => (i ? [h("span", { "aria-hidden": "true" }, "›"), part] : [part])),
  );
}

function draw(item) {
  const branch = item.leaf === false;
  const sign = branch ? h("span", { class: "sign", "aria-hidden": "true" }, "▸") : null;
  const name = h("span", { class: "row-name", title: item.name }, bdi(brief(item.name, 160)));
  const retired = item.status === "retired" ? h("span", { class: "soft" }, "retired") : null;
  return [sign, name, retired, branch ? number(item.labels, "label") : number(item.count, "training text")];
}

/** A count whose unit is read out and shown as a hint. */
function number(value, unit) {
  if (value === undefined) return null;
  return h(
    "span",
    { class: "value", title: plural(value, unit) },
    count(value),
    h("span", { class: "unseen" }, ` ${unit}s`),
  );
}

function choose(item) {
  if (item.leaf === false) goTo([...trail, { node: item.id, name: item.name }]).then(() => list.element.focus());
  else showItem(item.label ?? item.id);
}

const showItem = guarded("label", async (id) => {
  const item = await get("labels/item", { id, model: state.facts.id });
  const add = button("Add to the text", () => addToText(item), { disabled: !state.text.trim() });
  const parts = [...about(item), h("p", { class: "actions" }, add), path(item.path), similar(item.similar)];
  $("label").replaceChildren(...parts.filter((part) => part !== null));
});

async function addToText(item) {
  openTab("tag");
  await judge(item, "add");
}

function path(nodes) {
  if (!nodes?.length) return null;
  const root = { node: "", name: "All labels" };
  const one = (place, i) =>
    h(
      "li",
      {},
      button(bdi(place.name), () => goTo([root, ...nodes.slice(0, i + 1)]), {
        class: "link",
        title: place.name,
      }),
    );
  return h("div", {}, h("h4", {}, "Place in the tree"), h("ol", { class: "near steps" }, nodes.map(one)));
}
