// What the page says by itself: errors, which stay until they are closed or solved, and short news for screen readers.

import { $, button, h } from "./dom.js";

const shown = new Map(); // place -> element

/** Show an error at `place`, instead of the last one from there; null: there it works again. */
export function problem(place, error) {
  shown.get(place)?.remove();
  shown.delete(place);
  if (error === null || error.name === "AbortError") return;
  const notice = h(
    "div",
    { class: "error" },
    h("p", {}, error.message),
    button("Close", () => problem(place, null)),
  );
  shown.set(place, notice);
  $("errors").append(notice);
}

export function announce(text) {
  $("status").textContent = text;
}

/** A function that shows what goes wrong in `work`, at `place`. */
export function guarded(place, work) {
  return async (...given) => {
    try {
      const result = await work(...given);
      problem(place, null);
      return result;
    } catch (error) {
      problem(place, error);
      return undefined;
    }
  };
}
