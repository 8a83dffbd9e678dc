// Tables: read piece by piece, and written as `treetop predict --out FILE.csv` writes them.

const DELIMITERS = [",", ";", "\t"];
const FORMULA = /^[=+\-@\t\r\n]/; // a cell that begins so may be taken for a formula by a spreadsheet

/** Rows of cells out of pieces of text; quoted cells may hold delimiters, line ends and doubled quotes. */
export async function* table(pieces, delimiter) {
  const parser = new Parser(delimiter);
  for await (const piece of pieces) yield* parser.push(piece);
  yield* parser.end();
}

class Parser {
  constructor(delimiter) {
    this.delimiter = delimiter;
    this.row = [];
    this.cell = "";
    this.quoted = false; // inside quotes
    this.closing = false; // after a quote inside quotes: the end of the cell, or half of a doubled one
    this.ended = false; // after \r
    this.head = ""; // until the delimiter is known
  }

  *push(piece) {
    if (this.delimiter === null) {
      this.head += piece;
      if (!/[\r\n]/.test(this.head)) return;
      piece = this.found();
    }
    for (const letter of piece) {
      if (this.take(letter)) yield this.close();
    }
  }

  found() {
    const first = this.head.split(/[\r\n]/)[0];
    const often = DELIMITERS.map((mark) => first.split(mark).length);
    this.delimiter = DELIMITERS[often.indexOf(Math.max(...often))];
    const all = this.head;
    this.head = "";
    return all;
  }

  /** Take one character; true: a row ended before it. */
  take(letter) {
    if (this.quoted && !this.closing) {
      if (letter === '"') this.closing = true;
      else this.cell += letter;
      return false;
    }
    if (this.closing) {
      this.closing = false;
      if (letter === '"') {
        this.cell += letter;
        return false;
      }
      this.quoted = false;
    }
    const after = this.ended;
    this.ended = letter === "\r";
    if (letter === '"' && this.cell === "") this.quoted = true;
    else if (letter === this.delimiter) this.next();
    else if (letter === "\r" || (letter === "\n" && !after)) return true;
    else if (letter !== "\n") this.cell += letter;
    return false;
  }

  next() {
    this.row.push(this.cell);
    this.cell = "";
  }

  close() {
    this.next();
    const row = this.row;
    this.row = [];
    return row;
  }

  *end() {
    if (this.head) yield* this.push("\n");
    if (this.cell || this.row.length) yield this.close();
  }
}

/** One line of a CSV file. */
export const csvLine = (cells) => `${cells.map(quoted).join(",")}\r\n`;

const quoted = (cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);

/** A text or name that a spreadsheet displays and does not evaluate. */
export const plainCell = (text) => (FORMULA.test(text) ? `'${text}` : text);

/** Labels or numbers in one cell: 'a|b', or a JSON list where that would be read differently. */
export function joined(items) {
  const parts = items.map(String);
  const plain = parts.join("|");
  const safe = parts.every((part) => part && part === part.trim() && !part.includes("|")) && !plain.startsWith("[");
  return safe ? plain : JSON.stringify(items);
}
