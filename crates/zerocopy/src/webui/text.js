// Elements and figures: what is put on the page, and how numbers are written on it.

export const $ = id => document.getElementById(id);
/** Strategies, in the order in which they are stacked. */
export const SERIES = ["pipe", "vmsplice", "mmap-write", "uring", "sendfile"];

// Making elements: attributes, then children; strings become text.
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) if (value != null) node.setAttribute(name, value);
  node.append(...children.filter(child => child != null));
  return node;
}
export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
export const setText = (node, text) => { if (node.textContent !== text) node.textContent = text; };

// Numbers as people read them: three figures, and never apart from their unit.
export const NB = "\u00a0";
const figures = value => value === 0 ? "0" : value.toLocaleString("en", { maximumSignificantDigits: 3 });
export const count = value => Math.round(value).toLocaleString("en");
export const short = value =>
  value < 1e4 ? figures(value) : value < 1e6 ? figures(value / 1e3) + NB + "k"
    : value < 1e9 ? figures(value / 1e6) + NB + "M" : figures(value / 1e9) + NB + "G";
export const whole = value => value < 1e6 ? count(value) : short(value);
function scaled(value, units, step) {
  let unit = 0;
  while (unit < units.length - 1 && value >= step * 0.9995) { value /= step; unit += 1; }
  return figures(value) + NB + units[unit];
}
export const bytes = value => value < 1024 ? value + NB + "B" : scaled(value / 1024, ["KiB", "MiB", "GiB", "TiB"], 1024);
export const mebibytes = value => figures(value) + NB + "MiB";
export const micros = value => scaled(value, ["µs", "ms", "s"], 1000);
export const percent = value => (value * 100).toLocaleString("en", { maximumFractionDigits: value > 0.99 && value < 1 ? 2 : 1 }) + NB + "%";
export function duration(seconds) {
  const s = Math.floor(seconds);
  if (s < 60) return s + NB + "s";
  if (s < 3600) return Math.floor(s / 60) + NB + "min";
  if (s < 86_400) return `${Math.floor(s / 3600)}${NB}h ${Math.floor(s / 60) % 60}${NB}min`;
  return `${Math.floor(s / 86_400)}${NB}d ${Math.floor(s / 3600) % 24}${NB}h`;
}
export const colour = strategy => "c-" + (SERIES.includes(strategy) ? strategy : "other");
