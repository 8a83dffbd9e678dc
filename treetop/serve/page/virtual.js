// A list of any length of which only the visible rows are in the page; others are fetched when they come near.

import { h } from "./dom.js";

const ROW = 40; // pixels; the style sheet says the same
const SPARE = 6; // rows beyond the visible ones
const TALLEST = 8_000_000; // pixels; browsers draw nothing beyond about twice that
const PAGE = 100; // rows fetched at once
const REST = 50; // milliseconds a page must stay near before it is fetched, so that dragging does not fetch all

/**
 * Build a list in `place`. `source` has `total` and `page(offset, limit)`, a promise of items;
 * `draw(item)` gives the children of a row, `choose(item, index)` is called on Enter and click.
 */
export function virtualList(place, title, draw, choose) {
  const space = h("div", { class: "space", role: "presentation" });
  const list = h(
    "div",
    { id: `${place.id}-list`, class: "scroller", role: "listbox", tabindex: "0", "aria-label": title },
    space,
  );
  place.replaceChildren(list);
  let source = { total: 0 },
    pages = new Map(),
    active = -1,
    first = 0,
    end = 0,
    serial = 0,
    drawn = false;

  const tall = () => source.total * ROW;
  const height = () => Math.min(tall(), TALLEST);
  /** Rows scrolled past: exact for short lists, in proportion where the list is taller than browsers allow. */
  const scrolled = () => {
    const room = height() - list.clientHeight;
    return tall() <= TALLEST || room <= 0
      ? list.scrollTop / ROW
      : (list.scrollTop / room) * (source.total - list.clientHeight / ROW);
  };

  function scrollToRow(index) {
    const room = height() - list.clientHeight;
    list.scrollTop = tall() <= TALLEST ? index * ROW : (index / (source.total - list.clientHeight / ROW)) * room;
  }

  function item(index) {
    const number = Math.floor(index / PAGE);
    const known = pages.get(number);
    if (!known) fetchPage(number);
    return Array.isArray(known) ? known[index - number * PAGE] : undefined;
  }

  async function fetchPage(number) {
    const asked = serial;
    pages.set(number, "asked");
    if (number > 0) await new Promise((done) => setTimeout(done, REST));
    const near = number * PAGE < end && (number + 1) * PAGE > first;
    const items = asked === serial && near ? await source.page(number * PAGE, PAGE) : null;
    if (asked !== serial) return;
    if (items) pages.set(number, items);
    else pages.delete(number); // no longer near, or it failed: scrolling asks again
    if (near) later();
  }

  function later() {
    if (drawn) return;
    drawn = true;
    requestAnimationFrame(() => {
      drawn = false;
      redraw();
    });
  }

  function redraw() {
    const top = scrolled(),
      visible = Math.ceil(list.clientHeight / ROW);
    first = Math.max(0, Math.floor(top) - SPARE);
    end = Math.min(source.total, Math.floor(top) + visible + SPARE);
    const rows = [];
    for (let index = first; index < end; index++) rows.push(row(index, list.scrollTop + (index - top) * ROW));
    space.replaceChildren(...rows);
    const shown = active >= first && active < end;
    if (shown) list.setAttribute("aria-activedescendant", `${place.id}-row-${active}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function row(index, y) {
    const found = item(index);
    const element = h(
      "div",
      {
        id: `${place.id}-row-${index}`,
        class: "virtual-row",
        role: "option",
        "aria-selected": String(index === active),
        "aria-setsize": source.total,
        "aria-posinset": index + 1,
        onclick: () => activate(index, true),
      },
      found ? draw(found, index) : h("span", { class: "soft" }, "…"),
    );
    element.style.setProperty("transform", `translateY(${y}px)`);
    return element;
  }

  function activate(index, chosen) {
    active = Math.max(0, Math.min(source.total - 1, index));
    const top = scrolled(),
      visible = list.clientHeight / ROW;
    if (active < top) scrollToRow(active);
    else if (active + 1 > top + visible) scrollToRow(active + 1 - visible);
    redraw();
    const found = chosen ? item(active) : undefined;
    if (found) choose(found, active);
  }

  list.addEventListener("scroll", later);
  new ResizeObserver(later).observe(list);
  list.addEventListener("keydown", (event) => {
    const leap = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const moves = {
      ArrowDown: active + 1,
      ArrowUp: active - 1,
      PageDown: active + leap,
      PageUp: active - leap,
      Home: 0,
      End: source.total - 1,
    };
    if (event.key in moves && source.total) activate(moves[event.key], false);
    else if (event.key === "Enter" && active >= 0) activate(active, true);
    else return;
    event.preventDefault();
  });

  return {
    element: list,
    /** Show other rows, from the top. */
    use(given) {
      serial += 1;
      [source, pages, active] = [given, new Map(), -1];
      place.hidden = source.total === 0;
      space.style.setProperty("block-size", `${height()}px`);
      list.scrollTop = 0;
      redraw();
    },
    /** The same rows, and more of them. */
    grow(total) {
      source.total = total;
      place.hidden = total === 0;
      pages.clear();
      space.style.setProperty("block-size", `${height()}px`);
      later();
    },
  };
}
