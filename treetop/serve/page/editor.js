// The text field, with a copy of its text behind it in which words are marked.

import { $ } from "./dom.js";
import { marked } from "./highlight.js";
import { emit, on, state } from "./state.js";

export function startEditor() {
  const field = $("text");
  field.addEventListener("input", () => {
    state.text = field.value;
    emit("text");
  });
  field.addEventListener("scroll", follow);
  new ResizeObserver(follow).observe(field);
  $("clear").addEventListener("click", () => {
    state.text = "";
    emit("text");
    field.focus();
  });
  on("text", () => {
    if (field.value !== state.text) field.value = state.text;
    $("clear").disabled = !state.text;
    unmark();
  });
}

export function mark(words) {
  $("backdrop").replaceChildren(...marked(state.text, words), "\n"); // the last line counts even where it is empty
  follow();
}

export function unmark() {
  $("backdrop").replaceChildren();
}

function follow() {
  const field = $("text"),
    backdrop = $("backdrop");
  backdrop.style.setProperty("inline-size", `${field.clientWidth}px`); // without the scroll bar
  backdrop.scrollTop = field.scrollTop;
}
