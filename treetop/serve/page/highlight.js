// The words behind a label, marked in the text.

import { h } from "./dom.js";

const WORD = /[\p{L}\p{N}\p{M}_]+/gu;
const FAINT = 0.1; // of the largest: below, a word is not marked
const LEVELS = 4; // shades

/** Words of several steps as one list: contributions of the same term are added, largest first. */
export function added(steps) {
  const found = new Map();
  for (const word of steps.flatMap((step) => step.words)) {
    const known = found.get(word.term);
    if (known) known.contribution += word.contribution;
    else found.set(word.term, { ...word });
  }
  return [...found.values()].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
}

/** A text in pieces [piece, contribution]: whole words, and what lies between them at 0.
 *
 * A term that stands in several places is shared out evenly over them, one of several words over those, as
 * `treetop explain` does. Spans count characters; JavaScript counts UTF-16 units, so that an emoji counts twice. */
export function pieces(text, words) {
  const found = [...text.matchAll(WORD)].map((match) => ({
    start: match.index,
    end: match.index + match[0].length,
    sum: 0,
  }));
  const unit = units(text);
  for (const word of words) {
    for (const [start, end] of word.spans) {
      const covered = within(found, unit(start), unit(end));
      for (const piece of covered) piece.sum += word.contribution / word.spans.length / covered.length;
    }
  }
  const all = [];
  let last = 0;
  for (const { start, end, sum } of found) {
    if (start > last) all.push([text.slice(last, start), 0]);
    all.push([text.slice(start, end), sum]);
    last = end;
  }
  if (last < text.length) all.push([text.slice(last), 0]);
  return all;
}

function within(sorted, start, end) {
  let low = 0,
    high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle].end <= start) low = middle + 1;
    else high = middle;
  }
  const covered = [];
  for (let i = low; i < sorted.length && sorted[i].start < end; i++) covered.push(sorted[i]);
  return covered;
}

/** A function from the number of a character to its place in the string. */
function units(text) {
  if (!/[\ud800-\udfff]/.test(text)) return (place) => place;
  const places = [];
  let place = 0;
  for (const letter of text) {
    places.push(place);
    place += letter.length;
  }
  return (number) => (number < places.length ? places[number] : text.length);
}

/** The text with marked words, to lie behind the text field. */
export function marked(text, words) {
  const all = pieces(text, words);
  const most = all.reduce((largest, [, sum]) => Math.max(largest, Math.abs(sum)), 0);
  return all.map(([piece, sum]) => {
    const share = most > 0 ? Math.abs(sum) / most : 0;
    if (share < FAINT) return piece;
    return h("mark", { class: `${sum > 0 ? "for" : "against"} s${Math.ceil(share * LEVELS)}` }, piece);
  });
}
