// The secret of a server that asks for one: typed once, kept for this browser tab.

import { $ } from "./dom.js";

const KEY = "treetop-token";
const HINT = "It is the content of the file that the server was started with (--token-file).";
let asking = null;

export const token = () => sessionStorage.getItem(KEY) ?? "";

/** Ask for the token; several requests that were refused at once ask together. False: the person gave up. */
export function askToken(refused) {
  if (token() !== refused) return Promise.resolve(true); // another request has asked meanwhile
  asking ??= ask(refused).finally(() => (asking = null));
  return asking;
}

function ask(refused) {
  const dialog = $("token"),
    input = $("token-value");
  $("token-says").textContent = refused ? "The server refused this token. " + HINT : HINT;
  input.value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((done) => {
    dialog.addEventListener(
      "close",
      () => {
        const given = dialog.returnValue === "ok" && input.value.trim();
        if (given) sessionStorage.setItem(KEY, given);
        done(Boolean(given));
      },
      { once: true },
    );
  });
}
