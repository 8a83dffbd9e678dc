// Many texts through the server: a few requests at a time, patient where it is busy, stopped at any moment.

import { post } from "./api.js";

const TEXTS = 32; // the most one request may hold
const LETTERS = 400_000; // of one request; even with four bytes each that is below the server's 2 MB
const TOGETHER = 2; // requests in flight
const PAUSE = 0.5; // seconds before a busy server is asked again, unless it names a time

/** Ask for the labels of `documents` ({text, id} or {error}); `push(results)` gets them in order. */
export async function run(documents, request, push, signal) {
  let group = [];
  for await (const batch of batches(documents)) {
    group.push(batch);
    if (group.length < TOGETHER) continue;
    await sendAll(group, request, push, signal);
    group = [];
    if (signal.aborted) return;
  }
  await sendAll(group, request, push, signal);
}

async function* batches(documents) {
  let batch = [],
    letters = 0;
  for await (const document of documents) {
    const length = document.text?.length ?? 0;
    if (batch.length === TEXTS || (batch.length && letters + length > LETTERS)) {
      yield batch;
      [batch, letters] = [[], 0];
    }
    batch.push(document);
    letters += length;
  }
  if (batch.length) yield batch;
}

async function sendAll(group, request, push, signal) {
  const answers = await Promise.all(group.map((batch) => send(batch, request, signal)));
  if (!signal.aborted) push(answers.flat());
}

async function send(batch, request, signal) {
  const readable = batch.filter((document) => !document.error);
  const found = readable.length ? await patient(readable, request, signal) : [];
  let next = 0;
  return batch.map((document) => (document.error ? document : { ...document, ...found[next++] }));
}

async function patient(documents, request, signal) {
  while (!signal.aborted) {
    try {
      return (await post("predict", { ...request, texts: documents.map((document) => document.text) }, signal)).results;
    } catch (error) {
      if (error.name === "AbortError") return [];
      if (error.status === 429 || error.status === 503) await pause(error.wait || PAUSE, signal);
      else if ([400, 413, 422].includes(error.status)) return refused(documents, request, signal, error);
      else throw error;
    }
  }
  return [];
}

/** A refused request is sent again text by text, so that one bad text does not spoil the others. */
async function refused(documents, request, signal, error) {
  if (documents.length === 1) return [{ error: error.message }];
  const found = [];
  for (const document of documents) found.push(...(await patient([document], request, signal)));
  return found;
}

const pause = (seconds, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, 1000 * seconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
