// Requests to the server that sent this page, and to no other.

import { askToken, token } from "./token.js";

const UNREACHABLE = "The server does not answer. Check that it is running, then try again.";
const NO_TOKEN = "Nothing was sent: this server asks for a token. Reload the page to enter it.";

/** A refused request: the server's sentence and status; `wait`: seconds after which to try again. */
export class Problem extends Error {
  constructor(status, detail, wait = 0) {
    super(detail);
    this.name = "Problem";
    this.status = status;
    this.wait = wait;
  }
}

export const versions = new EventTarget(); // "version" with {model, version} of every answer

export function url(path, parameters = {}) {
  const address = new URL(`v1/${path}`, document.baseURI);
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined) address.searchParams.set(key, value);
  }
  return address;
}

export function get(path, parameters = {}, signal = undefined) {
  return ask(url(path, parameters), { signal });
}

export function post(path, body, signal = undefined) {
  const headers = { "Content-Type": "application/json" };
  return ask(url(path), { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function ask(address, request) {
  for (;;) {
    const secret = token();
    const headers = { ...request.headers, ...(secret ? { Authorization: `Bearer ${secret}` } : {}) };
    const answer = await fetch(address, { ...request, headers, cache: "no-store" }).catch((error) => {
      throw error.name === "AbortError" ? error : new Problem(0, UNREACHABLE);
    });
    if (answer.status === 401) {
      if (await askToken(secret)) continue;
      throw new Problem(401, NO_TOKEN);
    }
    const body = await read(answer);
    if (!answer.ok) throw refusal(answer, body);
    if (body.version) versions.dispatchEvent(new CustomEvent("version", { detail: body }));
    return body;
  }
}

async function read(answer) {
  try {
    return await answer.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(
      answer.status,
      `The server's answer (${answer.status}) is not JSON. Try again, or tell its keeper.`,
    );
  }
}

function refusal(answer, body) {
  const wait = Number(answer.headers.get("Retry-After") ?? 0);
  return new Problem(answer.status, body.detail || body.title || `The server refused this (${answer.status}).`, wait);
}

/** Only the latest of several requests counts: each call aborts the one before. */
export function latest() {
  let controller = null;
  return {
    signal() {
      controller?.abort();
      controller = new AbortController();
      return controller.signal;
    },
    stop: () => controller?.abort(),
  };
}
