// The page of `treetop serve`: starts the tabs, then asks which models there are.

import { startBatch } from "./batch.js";
import { startBrowse } from "./browse.js";
import { startCard } from "./card.js";
import { startCompare } from "./compare.js";
import { $, options } from "./dom.js";
import { guarded } from "./notices.js";
import { startTabs } from "./route.js";
import { loadModels, on, state, useModel } from "./state.js";
import { startTag } from "./tag.js";

const THEMES = ["", "light", "dark"]; // "": as the system has it

function startTheme() {
  const apply = (theme) => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    $("theme").title = `Colours: ${theme || "as the system"}`;
  };
  let theme = localStorage.getItem("treetop-theme") ?? "";
  apply(THEMES.includes(theme) ? theme : "");
  $("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem("treetop-theme", theme);
    apply(theme);
  });
}

const choose = guarded("model", (id) => useModel(id));

function startModels() {
  const select = $("model");
  select.addEventListener("change", () => choose(select.value));
  on("model", () => {
    options(
      select,
      state.models.map(({ id }) => [id, id]),
      state.facts.id,
    );
    select.disabled = state.models.length < 2;
    $("version").textContent = state.facts.version;
    document.title = `${state.facts.id} · treetop`;
  });
}

const start = guarded("model", async () => {
  await loadModels();
  await useModel(state.models[0].id);
  startTabs();
  document.body.dataset.ready = "";
});

startTheme();
startModels();
for (const begin of [startTag, startBrowse, startBatch, startCompare, startCard]) begin();
await start();
$("text").focus({ preventScroll: true });
