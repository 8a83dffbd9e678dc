// What all parts of the page share: the models, the one in use, and the choices of the person.

import { get, versions } from "./api.js";
import { guarded } from "./notices.js";

export const state = {
  models: [], // facts of all served models
  facts: null, // everything about the model in use
  text: "", // of the tag and compare tabs; kept nowhere else
  precision: 0.7,
  depth: 10,
};

const events = new EventTarget();

/** Call `work` whenever `event` happens: "model" (another one, or a new version), "text". */
export const on = (event, work) => events.addEventListener(event, () => work());
export const emit = (event) => events.dispatchEvent(new Event(event));

export async function loadModels() {
  state.models = (await get("models")).models;
}

export async function useModel(id) {
  state.facts = await get("model", { model: id });
  emit("model");
}

/** The threshold at the chosen precision: a number; null: none reached it; undefined: the model is not calibrated. */
export function acceptLine(facts = state.facts) {
  const found = facts?.calibration?.thresholds.find((entry) => entry.precision === state.precision);
  return found?.threshold;
}

const REST = 5000; // milliseconds between two looks: workers of one server may have different versions for a while
let renewed = -REST;

// A server may load a new version of a model while the page is open: the next answer shows it.
versions.addEventListener("version", ({ detail }) => {
  if (!state.facts || detail.model !== state.facts.id || detail.version === state.facts.version) return;
  if (performance.now() - renewed < REST) return;
  renewed = performance.now();
  renew();
});

const renew = guarded("model", async () => {
  await loadModels();
  await useModel(state.facts.id);
});
