// Elements without markup: whatever comes from the server or the user goes in as text.

export const $ = (id) => document.getElementById(id);

/** An element with attributes (`class`, `aria-...`, `hidden: true`), handlers (`onclick`) and children. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) set(element, key, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function set(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else element.setAttribute(key, value === true ? "" : String(value));
}

/** Text of unknown direction, which does not reorder what stands around it. */
export const bdi = (text) => h("bdi", {}, text);

export function button(text, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, text);
}

/** Radio buttons that look like one switch; `choices` are [value, text, title]. */
export function segments(fieldset, name, choices, chosen, onchange) {
  fieldset.querySelectorAll("label").forEach((old) => old.remove());
  for (const [value, text, title] of choices) {
    const input = h("input", { type: "radio", name, value, onchange: () => onchange(value) });
    input.checked = value === chosen;
    fieldset.append(h("label", { title }, input, h("span", {}, text)));
  }
}

export function options(select, choices, chosen) {
  select.replaceChildren(...choices.map(([value, text]) => h("option", { value }, text)));
  select.value = String(chosen);
}

/** Calls at most once `wait` milliseconds after the last of several calls. */
export function debounced(wait, work) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), wait);
  };
}
