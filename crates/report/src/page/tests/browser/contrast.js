// Contrasts of all that can be read or must be seen on the page as it is shown, by WCAG 2.2: text 4.5 (large text 3), graphics 3.
// Returns how many were looked at, and those that are too weak.
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colours = new Map();
// Any colour of CSS as red, green, blue and alpha.
const parse = (css) => {
  if (!colours.has(css)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "#000";
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    colours.set(css, [r, g, b, a / 255]);
  }
  return colours.get(css);
};
const over = ([r, g, b, a], more, under) => [r, g, b].map((v, i) => v * a * more + under[i] * (1 - a * more));
const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
const contrast = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};

const styles = new Map();
const style = (e) => styles.get(e) ?? styles.set(e, getComputedStyle(e)).get(e);
const opacity = (e) => (e ? +style(e).opacity * opacity(e.parentElement) : 1);
// What lies below an element of HTML.
const paper = (e) => (e ? over(parse(style(e).backgroundColor), 1, paper(e.parentElement)) : [255, 255, 255]);
// The rectangles of a picture in the order in which they are drawn, and what is below a place before `until` is drawn.
const rects = new Map();
const below = (picture, x, y, until) => {
  if (!rects.has(picture)) rects.set(picture, [...picture.querySelectorAll("rect")].map((r) => [r, r.getBoundingClientRect()]));
  let colour = paper(picture.parentElement);
  for (const [r, box] of rects.get(picture)) {
    if (r === until || until.compareDocumentPosition(r) & Node.DOCUMENT_POSITION_FOLLOWING) break;
    if (x < box.left || x > box.right || y < box.top || y > box.bottom) continue;
    // Where a pattern is drawn its lines count.
    const hatch = document.querySelector("#hatch line");
    const [fill, more] = style(r).fill.startsWith("url") ? [style(hatch).stroke, +style(hatch).strokeOpacity] : [style(r).fill, +style(r).fillOpacity];
    if (fill !== "none") colour = over(parse(fill), more * opacity(r), colour);
  }
  return colour;
};

const weak = [];
let count = 0;
const demand = (what, ratio, least) => {
  count += 1;
  if (ratio < least) weak.push(`${what}: ${ratio.toFixed(2)} instead of ${least}`);
};
const name = (e, words) => `${e.tagName.toLowerCase()}.${e.getAttribute("class") ?? ""} “${words.trim().slice(0, 30)}”`;

const range = document.createRange();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, e = node.parentElement;
  if (!node.data.trim() || !e.checkVisibility() || e.closest("script, style, title, desc, defs")) continue;
  range.selectNodeContents(node);
  const box = range.getBoundingClientRect();
  if (!box.width || !box.height) continue;
  const s = style(e), size = parseFloat(s.fontSize), least = size >= 24 || (size >= 18.66 && +s.fontWeight >= 700) ? 3 : 4.5;
  const picture = e.ownerSVGElement, y = (box.top + box.bottom) / 2;
  const grounds = picture ? [box.left + 1, (box.left + box.right) / 2, box.right - 1].map((x) => below(picture, x, y, e)) : [paper(e)];
  const [ink, more] = picture ? [s.fill, +s.fillOpacity] : [s.color, 1];
  demand(name(e, node.data), Math.min(...grounds.map((ground) => contrast(over(parse(ink), more * opacity(e), ground), ground))), least);
}
for (const e of document.querySelectorAll("input[placeholder]")) {
  const s = getComputedStyle(e, "::placeholder"), ground = paper(e);
  if (e.checkVisibility()) demand(name(e, e.placeholder), contrast(over(parse(s.color), +s.opacity, ground), ground), 4.5);
}

// Marks that a figure is read from: the line around them, or what fills them.
for (const e of document.querySelectorAll(MARKS)) {
  const picture = e.ownerSVGElement;
  if (!picture || !e.checkVisibility() || e.closest("defs, .off")) continue;
  const s = style(e), box = e.getBoundingClientRect();
  const ground = below(picture, (box.left + box.right) / 2, (box.top + box.bottom) / 2, e);
  const seen = (colour, more) => (colour === "none" ? 1 : contrast(over(parse(colour), more * opacity(e), ground), ground));
  const stroke = parseFloat(s.strokeWidth) >= 1 ? seen(s.stroke, +s.strokeOpacity) : 1;
  demand(name(e, picture.id), Math.max(stroke, seen(s.fill, +s.fillOpacity)), 3);
}
// Edges of what can be used.
for (const e of document.querySelectorAll("button, input")) {
  if (e.checkVisibility()) demand(name(e, "edge"), contrast(over(parse(style(e).borderBottomColor), 1, paper(e)), paper(e)), 3);
}
return [count, [...new Set(weak)]];
