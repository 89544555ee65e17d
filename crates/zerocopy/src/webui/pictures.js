// The charts: drawn anew with every sample, one unit a pixel.

import { $, NB, SERIES, colour, count, mebibytes, micros, setText, short, svg } from "./text.js";

/** Longest time that the charts span. Samples are rates since the sample before, `at` in milliseconds of the page's clock. */
export const WINDOW_MS = 60_000;
/** Spans of the charts, in seconds: the first that all samples fit into. */
const SPANS_S = [10, 20, 30, 60];
/** Samples further apart than this are not joined by a line. */
const GAP_MS = 3_500;
/** Room around a picture for what is written there. */
const [LEFT, RIGHT, TOP, BELOW] = [46, 84, 8, 22];
const PERCENTILES = [["p50", "50 %"], ["p90", "90 %"], ["p99", "99 %"], ["p999", "99.9 %"]];

let samples = [];
/** When the sample that is read out was taken; the last one unless the reader points at another. */
let cursor = null;
let pipeBudget = 0;
/** Time that the charts span now, in milliseconds. */
let spanMs = SPANS_S[0] * 1_000;

/** Shows the last of these samples; `budget` is the limit of pipe memory in MiB. */
export function show(history, budget) {
  [samples, pipeBudget] = [history, budget];
  const age = samples.at(-1).at - samples[0].at;
  spanMs = (SPANS_S.find(it => it * 1_000 >= age) ?? SPANS_S.at(-1)) * 1_000;
  setText($("minute-title"), spanMs === WINDOW_MS ? "Last minute" : `Last ${spanMs / 1_000} seconds`);
  panels.forEach(draw);
}

export function start() {
  panels.forEach(panel => followPointer($(panel.id)));
  new ResizeObserver(() => panels.forEach(draw)).observe($("minute"));
}
const stack = ({ mix, mixed }) => {
  let below = 0;
  return SERIES.concat(Object.keys(mix).filter(name => !SERIES.includes(name))).map(name => {
    const from = below;
    below += mixed > 0 ? (mix[name] ?? 0) / mixed : 0;
    return { name, from, to: below };
  });
};
const panels = [
  { id: "rate", tick: short, lines: [["accent", it => it.rate, short]], area: true, least: 10, says: it => `${count(it.rate)} per second` },
  {
    id: "pipes", tick: mebibytes, lines: [["accent", it => it.pipes, mebibytes]], area: true, least: 1, limit: () => pipeBudget,
    says: it => `${mebibytes(it.pipes)} of ${mebibytes(pipeBudget)}`,
  },
  {
    id: "latency", tick: micros, log: true, lines: PERCENTILES.map(([key, name]) => [key, it => it.latency?.[key], () => name]),
    says: it => it.latency ? `50${NB}% within ${micros(it.latency.p50)}, 99${NB}% within ${micros(it.latency.p99)}, maximum ${micros(it.latency.max)}` : "no requests",
  },
  {
    id: "mix", tick: it => `${100 * it}${NB}%`, stacked: true, top: 1,
    says: it => it.mixed === 0 ? "no requests" : stack(it).map(part => [part.to - part.from, part.name]).sort((a, b) => b[0] - a[0])
      .slice(0, 3).filter(([share]) => share >= 0.005).map(([share, name]) => `${name} ${Math.round(100 * share)}${NB}%`).join(", "),
  },
];

/** 1, 2 or 5 times a power of ten, so that a few steps reach `most`. */
function step(most) {
  const power = 10 ** Math.floor(Math.log10(most / 3));
  return [1, 2, 5, 10].map(it => it * power).find(it => it * 3.5 >= most);
}

function scale(panel, values, bottom, height) {
  if (panel.log) {
    const low = Math.max(0.1, Math.min(...values)), high = Math.max(low * 3, ...values);
    const edges = [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high * 1.01))];
    const ticks = [];
    for (let it = edges[0]; it <= edges[1] * 1.01; it *= 10) ticks.push(it, 3 * it);
    const span = Math.log(edges[1] / edges[0]);
    const few = ticks.filter(it => it <= edges[1] * 1.01);
    return { ticks: few.length > 7 ? few.filter((_, nth) => nth % 2 === 0) : few, y: value => bottom - height * Math.log(Math.max(value, edges[0]) / edges[0]) / span };
  }
  const most = panel.top ?? Math.max(panel.least, ...values) * 1.08;
  const by = panel.top ? 0.5 : step(most);
  const top = panel.top ?? Math.ceil(most / by) * by;
  const ticks = Array.from({ length: Math.round(top / by) + 1 }, (_, nth) => nth * by);
  return { ticks, y: value => bottom - height * value / top, top };
}

/** Runs of samples that may be joined, each of which has a value. */
function runs(samples, value) {
  const found = [];
  let last = null;
  for (const it of samples) {
    if (value(it) == null) { last = null; continue; }
    if (last === null || it.at - last.at > GAP_MS) found.push([]);
    found.at(-1).push(it);
    last = it;
  }
  return found;
}

function draw(panel) {
  const figure = $(panel.id), canvas = figure.querySelector("svg");
  const last = samples.at(-1);
  if (!last) return;
  const width = canvas.clientWidth - LEFT - RIGHT, bottom = canvas.clientHeight - BELOW, height = bottom - TOP;
  const x = at => LEFT + width * (1 - (last.at - at) / spanMs);
  const inside = samples.filter(it => last.at - it.at <= spanMs);
  const shown = inside.find(it => it.at === cursor) ?? last;
  const values = (panel.lines ?? []).flatMap(line => inside.map(line[1])).filter(it => it != null);
  const { ticks, y, top: most } = scale(panel, values.length ? values : [1], bottom, height);
  const at = (it, value) => `${x(it.at).toFixed(1)},${y(value).toFixed(1)}`;
  const marks = ticks.flatMap((tick, nth) => [
    svg("line", { class: nth === 0 ? "base" : "grid", x1: LEFT, x2: LEFT + width, y1: y(tick), y2: y(tick) }),
    svg("text", { x: LEFT - 8, y: y(tick) + 3.5, "text-anchor": "end" }, tick === 0 ? "0" : panel.tick(tick)),
  ]);
  for (const [part, anchor] of [[1, "start"], [0.5, "middle"], [0, "end"]]) {
    const text = part === 0 ? "now" : `−${part * spanMs / 1_000}${NB}s`;
    marks.push(svg("text", { x: LEFT + width * (1 - part), y: bottom + 17, "text-anchor": anchor }, text));
  }
  const labels = [], dots = [];
  for (const [key, value, name] of panel.lines ?? []) {
    for (const run of runs(inside, value)) {
      const points = run.map(it => at(it, value(it))).join(" ");
      if (panel.area) marks.push(svg("polygon", { class: "area c-" + key, points: `${x(run[0].at)},${bottom} ${points} ${x(run.at(-1).at)},${bottom}` }));
      marks.push(svg("polyline", { class: `ln c-${key} d-${key}`, points }));
    }
    if (value(last) != null) labels.push({ y: y(value(last)), name: name(value(last)), mark: "c-" + key });
    if (value(shown) != null) dots.push(svg("circle", { class: "dot c-" + key, cx: x(shown.at), cy: y(value(shown)), r: 3.5 }));
  }
  if (panel.stacked) stackUp(inside, at, y, marks, labels);
  const limit = panel.limit?.();
  if (limit <= most) {
    marks.push(svg("line", { class: "limit", x1: LEFT, x2: LEFT + width, y1: y(limit), y2: y(limit) }),
      svg("text", { x: LEFT + 4, y: y(limit) - 5 }, "budget"));
  }
  if (shown !== last) marks.push(svg("line", { class: "cursor", x1: x(shown.at), x2: x(shown.at), y1: TOP, y2: bottom }));
  marks.push(...dots, ...spread(labels, bottom).flatMap(it => [
    svg("line", { class: "lead " + it.mark, x1: LEFT + width + 4, x2: LEFT + width + 11, y1: it.from, y2: it.y }),
    svg("text", { class: "lab " + it.mark, x: LEFT + width + 14, y: it.y + 4 }, it.name),
  ]));
  canvas.replaceChildren(...marks);
  const ago = Math.round((last.at - shown.at) / 1000);
  const text = panel.says(shown) + (ago > 0 ? `, ${ago}${NB}s ago` : "");
  setText(figure.querySelector(".now"), text);
}

function stackUp(samples, at, y, marks, labels) {
  for (const run of runs(samples, it => it.mixed > 0 ? it.mixed : null)) {
    const stacks = run.map(stack);
    stacks[0].forEach(({ name }, nth) => {
      if (stacks.every(parts => parts[nth].to === parts[nth].from)) return;
      const upper = run.map((it, when) => at(it, stacks[when][nth].to));
      const lower = run.map((it, when) => at(it, stacks[when][nth].from)).reverse();
      marks.push(svg("polygon", { class: "stack " + colour(name), points: [...upper, ...lower].join(" ") }));
    });
  }
  const last = samples.at(-1);
  for (const { name, from, to } of last.mixed > 0 ? stack(last) : []) {
    if (to - from >= 0.005) labels.push({ y: y((from + to) / 2), name, mark: colour(name) });
  }
}

/** Labels in the order of their lines, far enough apart to be read. */
function spread(labels, bottom) {
  const placed = labels.map(it => ({ ...it, from: it.y })).sort((a, b) => a.y - b.y);
  placed.forEach((it, nth) => { it.y = Math.max(it.y, nth ? placed[nth - 1].y + 14 : TOP + 4); });
  placed.reverse().forEach((it, nth) => { it.y = Math.min(it.y, nth ? placed[nth - 1].y - 14 : bottom); });
  return placed;
}

/** Reads out the moment under the pointer, or the one chosen by the arrow keys, in all charts; no sample means the last one. */
function pointAt(sample) {
  cursor = sample && sample !== samples.at(-1) ? sample.at : null;
  panels.forEach(draw);
}

function followPointer(figure) {
  figure.addEventListener("pointermove", event => {
    if (samples.length === 0) return;
    const axis = figure.querySelector(".base").getBoundingClientRect();
    const at = samples.at(-1).at - spanMs * (1 - (event.clientX - axis.left) / axis.width);
    pointAt(samples.reduce((best, it) => Math.abs(it.at - at) < Math.abs(best.at - at) ? it : best));
  });
  figure.addEventListener("pointerleave", () => pointAt(null));
  figure.addEventListener("blur", () => pointAt(null));
  figure.addEventListener("keydown", event => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || samples.length === 0) return;
    event.preventDefault();
    const now = samples.findIndex(it => it.at === cursor);
    pointAt(samples[Math.max(0, (now < 0 ? samples.length - 1 : now) + by)] ?? null);
  });
}
