// Tabs of the page; the address after # names the open one, so that a link leads there.

import { $ } from "./dom.js";

const DEFAULT = "tag";
const opened = new Map(); // tab -> what to do when it opens
let wanted = null; // label to show in the labels tab

const tabs = () => [...document.querySelectorAll("[role=tab]")].filter((tab) => !tab.hidden);
const panel = (tab) => $(tab.getAttribute("aria-controls"));

/** Call `work` each time the tab `name` opens. */
export const onOpen = (name, work) => opened.set(name, work);

export function openTab(name) {
  if (location.hash.slice(1).split("/")[0] !== name) history.pushState(null, "", `#${name}`);
  show(name);
}

/** Open the labels tab at a label. */
export function showLabel(id) {
  history.pushState(null, "", `#labels/${encodeURIComponent(id)}`);
  follow();
}

/** The label that the labels tab was opened for, once. */
export function takeWanted() {
  const id = wanted;
  wanted = null;
  return id;
}

function show(name) {
  const all = tabs();
  const chosen = all.find((tab) => panel(tab).id === name) ?? all.find((tab) => panel(tab).id === DEFAULT);
  for (const tab of document.querySelectorAll("[role=tab]")) {
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
    panel(tab).hidden = tab !== chosen;
  }
  chosen.scrollIntoView({ block: "nearest", inline: "nearest" });
  opened.get(panel(chosen).id)?.();
}

function follow() {
  const [name, ...rest] = location.hash.slice(1).split("/");
  if (name === "main") return; // the link past the header
  wanted = name === "labels" && rest.length ? decoded(rest.join("/")) : null;
  show(name);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Tabs that this server has nothing for are hidden. */
export function offer(name, available) {
  $(`tab-${name}`).hidden = !available;
  if (!available && !$(name).hidden) openTab(DEFAULT);
}

export function startTabs() {
  for (const tab of document.querySelectorAll("[role=tab]"))
    tab.addEventListener("click", () => openTab(panel(tab).id));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const all = tabs(),
      place = all.indexOf(document.activeElement);
    const moves = { ArrowRight: place + 1, ArrowLeft: place - 1 + all.length, Home: 0, End: all.length - 1 };
    if (!(event.key in moves) || place < 0) return;
    event.preventDefault();
    const next = all[moves[event.key] % all.length];
    next.focus();
    next.click();
  });
  addEventListener("popstate", follow);
  follow();
}
