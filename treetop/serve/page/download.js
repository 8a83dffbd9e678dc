// Results as files, in the forms `treetop predict` writes.

import { csvLine, joined, plainCell } from "./csv.js";
import { h } from "./dom.js";

const COLUMNS = ["id", "text", "ids", "labels", "scores", "probabilities"];
const CHUNK = 1000; // rows of one piece of the file

export function asCsv(results) {
  const failed = results.some((result) => result.error);
  const line = (result) => [...cells(result), ...(failed ? [plainCell(result.error ?? "")] : [])];
  return pieces(results, (result) => csvLine(line(result)), csvLine(failed ? [...COLUMNS, "error"] : COLUMNS));
}

function cells({ id, text = "", labels = [] }) {
  const sure = labels.map((label) => label.probability).filter((value) => value !== null);
  const names = plainCell(joined(labels.map((label) => label.name)));
  return [
    id ?? "",
    plainCell(text),
    joined(labels.map((label) => label.id)),
    names,
    joined(labels.map((label) => label.score)),
    joined(sure),
  ];
}

export function asJsonl(results) {
  return pieces(results, (result) => `${JSON.stringify(record(result))}\n`);
}

function record({ id, error, unknown, labels = [] }) {
  const named = id === null || id === undefined ? {} : { id };
  if (error) return { ...named, error };
  const answer = {
    ids: labels.map((label) => label.id),
    labels: labels.map((label) => label.name),
    scores: labels.map((label) => label.score),
    probabilities: labels.map((label) => label.probability),
  };
  return { ...named, ...answer, ...(unknown ? { unknown: true } : {}) };
}

function pieces(results, line, head = "") {
  const found = [head];
  for (let i = 0; i < results.length; i += CHUNK)
    found.push(
      results
        .slice(i, i + CHUNK)
        .map(line)
        .join(""),
    );
  return found;
}

export function download(name, type, parts) {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
