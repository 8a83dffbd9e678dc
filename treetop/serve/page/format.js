// Numbers and names as people read them.

const whole = new Intl.NumberFormat("en");

export const count = (number) => whole.format(number);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
export const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
export const probability = (value) => value.toFixed(2);
/** A score: two digits after the point unless that would say nothing of it. */
export function score(value) {
  const size = Math.abs(value);
  return minus(size !== 0 && (size < 0.01 || size >= 1000) ? value.toExponential(1) : value.toFixed(2));
}
export const margin = (value) => minus(value.toFixed(2));
const minus = (text) => text.replaceAll("-", "−");

/** A number with its sign, in typographic form. */
export const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

/** The beginning of a name: its first `most` characters, never half of one. */
export function brief(name, most = 60) {
  const letters = [...name.slice(0, 2 * most + 2)];
  return letters.length > most
    ? `${letters
        .slice(0, most - 1)
        .join("")
        .trimEnd()}…`
    : name;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}
