// The Markdown of model cards as elements: headings, lists, tables, code, emphasis, links. Markup in it stays text.

import { h } from "./dom.js";

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(([^)\s]+)\)/g;
const TABLE_RULE = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/;

export function markdown(text) {
  const lines = withoutFrontMatter(text.replace(/\r\n/g, "\n").split("\n"));
  const found = [];
  for (let at = 0; at < lines.length;) {
    const [element, next] = block(lines, at);
    if (element) found.push(element);
    at = next;
  }
  return found;
}

function withoutFrontMatter(lines) {
  const end = lines[0] === "---" ? lines.indexOf("---", 1) : -1;
  return end > 0 ? lines.slice(end + 1) : lines;
}

/** One block that begins at a line, and the line after it. */
function block(lines, at) {
  const line = lines[at];
  if (!line.trim()) return [null, at + 1];
  if (line.startsWith("```")) return fence(lines, at);
  if (/^ {4}/.test(line))
    return run(
      lines,
      at,
      (each) => /^ {4}/.test(each),
      (some) => code(some.map((each) => each.slice(4))),
    );
  const heading = /^(#{1,6}) +(.*)$/.exec(line);
  if (heading) return [h(`h${Math.min(6, heading[1].length + 1)}`, {}, inline(heading[2])), at + 1];
  if (/^[-*] /.test(line))
    return run(
      lines,
      at,
      (each) => /^[-*] /.test(each),
      (some) =>
        h(
          "ul",
          {},
          some.map((each) => h("li", {}, inline(each.slice(2)))),
        ),
    );
  if (/^\d+\. /.test(line))
    return run(
      lines,
      at,
      (each) => /^\d+\. /.test(each),
      (some) =>
        h(
          "ol",
          {},
          some.map((each) => h("li", {}, inline(each.replace(/^\d+\. /, "")))),
        ),
    );
  if (line.includes("|") && TABLE_RULE.test(lines[at + 1] ?? ""))
    return run(lines, at, (each) => each.includes("|"), table);
  return run(
    lines,
    at,
    (each, i) => each.trim() !== "" && (i === 0 || !/^(#|```|[-*] |\d+\. )/.test(each)),
    (some) => h("p", {}, inline(some.join(" "))),
  );
}

function run(lines, at, belongs, make) {
  let end = at;
  while (end < lines.length && belongs(lines[end], end - at)) end++;
  return [make(lines.slice(at, end)), end];
}

function fence(lines, at) {
  let end = at + 1;
  while (end < lines.length && !lines[end].startsWith("```")) end++;
  return [code(lines.slice(at + 1, end)), end + 1];
}

const code = (lines) => h("pre", { tabindex: "0" }, h("code", {}, lines.join("\n")));

function table(lines) {
  const cells = (line) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split("|")
      .map((cell) => cell.trim());
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      cells(lines[0]).map((cell) => h("th", { scope: "col" }, inline(cell))),
    ),
  );
  const body = lines.slice(2).map((line) =>
    h(
      "tr",
      {},
      cells(line).map((cell) => h("td", {}, inline(cell))),
    ),
  );
  return h("div", { class: "scrolls", tabindex: "0" }, h("table", {}, head, h("tbody", {}, body)));
}

function inline(text) {
  const found = [];
  let last = 0;
  for (const match of text.matchAll(INLINE)) {
    found.push(text.slice(last, match.index), element(match));
    last = match.index + match[0].length;
  }
  return [...found, text.slice(last)].filter((piece) => piece !== "");
}

function element([, coded, strong, title, address]) {
  if (coded) return h("code", {}, coded);
  if (strong) return h("strong", {}, strong);
  if (/^https?:\/\//i.test(address))
    return h("a", { href: address, rel: "noreferrer noopener", target: "_blank" }, title);
  return title; // an address in the model folder leads nowhere here
}
