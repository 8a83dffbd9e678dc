// Texts out of files, piece by piece: CSV, TSV, JSONL, one text a line, or one text a file.

import { table } from "./csv.js";

const TABLES = { csv: null, tsv: "\t" }; // null: the delimiter is found in the header
const LINES = new Set(["jsonl", "ndjson"]);
const PIECE = 4096; // bytes; browsers hand out small files as a whole, which would be no measure of progress

const suffix = (file) => file.name.split(".").pop().toLowerCase();
export const path = (file) => file.fullPath || file.webkitRelativePath || file.name;
export const readable = (file) => suffix(file) in TABLES || LINES.has(suffix(file)) || suffix(file) === "txt";

/** {text, id} of all files, or {error, id} of rows that cannot be read; `read(bytes)` is told how far it is. */
export async function* documents(files, read) {
  const texts = files.filter((file) => suffix(file) === "txt").length;
  for (const file of files) {
    const form = suffix(file);
    if (form in TABLES) yield* ofTable(file, TABLES[form], read);
    else if (LINES.has(form)) yield* ofLines(file, read, json);
    else if (texts === 1) yield* ofLines(file, read, (line) => ({ text: line }));
    else yield* wholeFile(file, read);
  }
}

async function* wholeFile(file, read) {
  let text = "";
  for await (const piece of decoded(file, read)) text += piece;
  yield { id: path(file), text };
}

async function* ofLines(file, read, parse) {
  let number = 0;
  for await (const line of lines(file, read)) {
    number += 1;
    if (line.trim()) yield parse(line, `${path(file)}, line ${number}`);
  }
}

function json(line, where) {
  try {
    return document_(JSON.parse(line) ?? {}, where);
  } catch {
    return { id: where, error: `${where}: not JSON. Write one object a line, such as {"text": "..."}.` };
  }
}

/** The text of a record as training reads it: `text`, or title and content. */
function document_(record, where) {
  const names = "text" in record ? ["text"] : ["title", "content"];
  const parts = names.map((name) => record[name]).filter((part) => part !== undefined && part !== null);
  const id = record.id ?? record.uid ?? null;
  if (!parts.length) return { id: id ?? where, error: `${where}: no text. Name it 'text', or 'title' and 'content'.` };
  if (parts.some((part) => typeof part !== "string"))
    return { id: id ?? where, error: `${where}: the text is not a string. Put it in quotes.` };
  return { id: id === null ? null : String(id), text: parts.filter(Boolean).join(" ") };
}

async function* ofTable(file, delimiter, read) {
  let header = null,
    number = 1;
  for await (const cells of table(decoded(file, read), delimiter)) {
    if (header === null) {
      header = cells.map((cell) => cell.trim().toLowerCase());
      if (!header.some((name) => ["text", "title", "content"].includes(name))) {
        throw new Error(
          `${path(file)}: no column 'text'; there are ${cells.slice(0, 8).join(", ")}. Name one of them 'text'.`,
        );
      }
      continue;
    }
    number += 1;
    if (cells.length === 1 && cells[0] === "") continue;
    const record = Object.fromEntries(header.map((name, i) => [name, cells[i]]));
    yield document_(record, `${path(file)}, row ${number}`);
  }
}

async function* lines(file, read) {
  let rest = "";
  for await (const piece of decoded(file, read)) {
    const parts = (rest + piece).split(/\r?\n/);
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

async function* decoded(file, read) {
  const reader = file.stream().getReader(),
    decoder = new TextDecoder("utf-8", { fatal: true });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      for (let at = 0; at < value.length; at += PIECE) {
        const piece = value.subarray(at, at + PIECE);
        const text = decode(decoder, piece, file, true);
        if (text) yield text;
        read(piece.length); // only now: what was yielded before has been used
      }
    }
    decode(decoder, undefined, file, false); // a character that is cut off is no UTF-8
  } finally {
    reader.releaseLock();
  }
}

function decode(decoder, bytes, file, more) {
  try {
    return decoder.decode(bytes, { stream: more });
  } catch {
    throw new Error(`${path(file)}: not UTF-8. Save the file as UTF-8.`);
  }
}

// --- what is dropped: files, and folders with files ---

/** All files that were dropped, those in folders too. */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean); // at once: items expire
  if (!entries.length) return [...transfer.files];
  return (await Promise.all(entries.map(inside))).flat();
}

async function inside(entry) {
  if (entry.isFile) {
    const file = await new Promise((done, fail) => entry.file(done, fail));
    if (entry.fullPath.lastIndexOf("/") > 0) file.fullPath = entry.fullPath.slice(1);
    return [file];
  }
  const reader = entry.createReader(),
    found = [];
  for (;;) {
    const some = await new Promise((done, fail) => reader.readEntries(done, fail));
    if (!some.length) break;
    found.push(...some);
  }
  return (await Promise.all(found.map(inside))).flat();
}
