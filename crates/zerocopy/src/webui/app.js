// Live statistics of the cache: requests /cache/stats once a second and shows the response.
// Names come from whoever made the files: they are only ever set as text, never parsed.

import * as pictures from "./pictures.js";
import { $, NB, bytes, colour, count, duration, el, mebibytes, micros, percent, setText, svg, whole } from "./text.js";

const PERIOD_MS = 1_000;
const TIMEOUT_MS = 4_000;
const ROWS = 100;
const REASONS = {
  mapping: "the file could not be mapped",
  "pipe-budget": "the pipe budget was used up",
  descriptors: "the limit of open files was reached",
  kernel: "the kernel refused the pipe or its contents",
  scratch: "no scratch pipe was available",
};
const TOKEN = "zerocopy-token";

const state = { stats: null, history: [], goneSince: null, sort: "requests", falling: true, all: false };

// ---- asking

let token = remembered(TOKEN);
function remembered(key) { try { return sessionStorage.getItem(key) ?? ""; } catch { return ""; } }
function remember(key, value) { try { sessionStorage.setItem(key, value); } catch { /* then until the page is left */ } }

async function ask(method, path) {
  const headers = token ? { Authorization: "Bearer " + token } : {};
  const answer = await fetch(path, { method, headers, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
  const refused = answer.status === 401 || answer.status === 403;
  if (refused) wantToken(answer.status);
  if (answer.ok) return answer.json();
  const why = await answer.json().then(body => body.error, () => null);
  throw Object.assign(new Error(`${why ?? answer.statusText ?? "refused"} (${answer.status})`), { refused, answered: true });
}

function wantToken(status) {
  setText($("access-why"), token ? `The server does not accept this token (${status}).` : "Admin token required.");
  $("access").hidden = false;
}

function alertUser(text) {
  setText($("alert"), text);
  $("alert").hidden = text === "";
}

async function poll() {
  const began = performance.now();
  try {
    const stats = await ask("GET", "../stats");
    if (stats.schema !== 1) throw Object.assign(new Error(`this page cannot read version ${stats.schema} of the statistics`), { answered: true });
    state.goneSince = null;
    alertUser("");
    $("access").hidden = true;
    take(stats, performance.now());
    show();
  } catch (error) {
    missing(error);
  }
  setTimeout(poll, Math.max(100, PERIOD_MS - (performance.now() - began)));
}

/** Says that there are no figures, and since when; the text stays the same, so that it is read out once. */
function missing(error) {
  $("state").className = "state gone";
  setText($("state-text"), error.refused ? "token required" : error.answered ? "error" : "no answer");
  state.goneSince ??= new Date();
  if (error.refused) alertUser("");
  else alertUser(`${error.answered ? `Error from the server: “${error.message}”` : "No answer from the server"} since `
    + `${state.goneSince.toLocaleTimeString("en-GB")}. Trying again every second.${state.stats ? " The figures below are older." : ""}`);
}

/** Adds a sample: counters since the start become rates since the sample before. */
function take(stats, now) {
  const before = state.stats;
  const again = before && stats.uptime_s < before.uptime_s;
  const elapsed = before && !again ? stats.uptime_s - before.uptime_s : 0;
  const since = (value, old) => Math.max(0, value - (old ?? 0));
  const mix = {};
  if (elapsed > 0) {
    const old = new Map(before.strategies.map(it => [it.name, it.requests]));
    for (const it of stats.strategies) mix[it.name] = since(it.requests, old.get(it.name));
  }
  const requests = elapsed > 0 ? since(stats.requests.total, before.requests.total) : null;
  state.history.push({
    at: now,
    rate: requests === null ? stats.requests.served_per_sec : requests / elapsed,
    pipes: stats.memory.pipe_mem_used,
    latency: requests === 0 || stats.latency_us.count === 0 ? null : stats.latency_us,
    mix,
    mixed: Object.values(mix).reduce((sum, it) => sum + it, 0),
  });
  state.history = state.history.filter(it => now - it.at <= pictures.WINDOW_MS + 2 * PERIOD_MS);
  state.stats = stats;
}

// ---- showing

function show() {
  const { stats } = state;
  $("page").classList.remove("blank");
  $("state").className = "state live";
  setText($("state-text"), `live, up ${duration(stats.uptime_s)}`);
  showVerdict(stats);
  showTiles(stats);
  pictures.show(state.history, stats.memory.pipe_budget);
  showStrategies(stats);
  showFiles();
  setText($("window"), stats.latency_us.window_s ? `, over the last ${stats.latency_us.window_s}${NB}s` : ", since the start");
  if ($("raw-box").open) setText($("raw-text"), JSON.stringify(stats, null, 2));
}

function showVerdict({ requests, files_total, memory }) {
  const { rate, latency } = state.history.at(-1);
  const strong = text => el("b", null, text);
  const kept = files_total === 0 ? ["The cache is empty."] : [strong(count(files_total)), files_total === 1 ? " file is cached; pipes hold " : " files are cached; pipes hold ",
    strong(mebibytes(memory.pipe_mem_used)), "."];
  const asked = rate < 0.5 ? ["No requests at the moment. "]
    : [strong(count(rate)), " requests per second", ...(latency ? [": 50 % answered within ", strong(micros(latency.p50)),
      ", 99 % within ", strong(micros(latency.p99))] : []), ". "];
  $("verdict").replaceChildren(...asked, ...kept);
}

function showTiles({ requests, files_total, fallbacks, zombies, memory }) {
  const fallen = Object.values(fallbacks).reduce((sum, it) => sum + it, 0);
  const [sent, unit] = bytes(requests.bytes).split(NB);
  const tiles = [
    ["requests", whole(requests.total)], ["sent", sent, unit],
    ["hit ratio", requests.hits + requests.misses > 0 ? percent(requests.hit_ratio) : "–"],
    ["cached files", whole(files_total), zombies > 0 ? `+${NB}${count(zombies)} detached` : null],
    ["open descriptors", whole(memory.descriptors), memory.pipes > 0 ? `${count(memory.pipes)}${NB}pipes` : null],
    ["fallbacks", whole(fallen), null, fallen > 0 ? "on" : null],
  ];
  $("tiles").replaceChildren(...tiles.map(([name, value, beside, mark]) =>
    el("div", { class: mark }, el("dt", null, name), el("dd", null, value, beside && el("small", null, beside)))));
}

function showStrategies({ strategy, auto, strategies, fallbacks }) {
  const upTo = ({ up_to, strategy }) => up_to == null ? `${strategy} above` : `${strategy} up to ${bytes(up_to)}`;
  setText($("auto"), strategy === "auto" && auto?.length
    ? `Chosen by size: ${auto.map(upTo).join(", ")}. Files that cannot be sent that way are sent by sendfile.`
    : `Strategy: ${strategy}. Files that cannot be sent that way are sent by sendfile.`);
  $("strategy-rows").replaceChildren(...strategies.map(it =>
    el("tr", { class: it.files + it.requests + it.fallbacks === 0 ? "quiet" : null },
      el("th", { scope: "row" }, el("span", { class: "swatch " + colour(it.name) }), it.name),
      ...[count(it.files), whole(it.requests), bytes(it.bytes), whole(it.fallbacks)].map(text => el("td", { class: "r" }, text)))));
  const most = Math.max(1, ...Object.values(fallbacks));
  $("reasons").replaceChildren(...Object.entries(fallbacks).map(([name, times]) =>
    el("div", { class: times === 0 ? "quiet" : null },
      el("dt", null, name, el("span", null, REASONS[name] ?? "")), el("dd", null, whole(times)),
      svg("svg", { "aria-hidden": "true" }, svg("rect", { class: "bar", width: `${100 * times / most}%`, height: 3 })))));
}

// ---- files

const COLUMNS = [
  { key: "uri", title: "path", of: it => it.uri },
  { key: "strategy", title: "strategy", of: it => it.strategy },
  { key: "size", title: "size", right: true, of: it => it.size },
  { key: "requests", title: "requests", right: true, of: it => it.requests },
  { key: "idle", title: "idle", right: true, of: it => it.idle_s },
];
const rows = new Map();

const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
const resetPath = it => "../reset" + (it.path ?? it.uri.split("/").map(encodeURIComponent).join("/"));
const found = () => {
  const wanted = $("search").value.toLowerCase();
  return state.stats.files.filter(it => it.uri.toLowerCase().includes(wanted));
};

/** Nothing moves under a pointer or a focus that may be about to press a button. */
function inOrder(files) {
  const { of } = COLUMNS.find(it => it.key === state.sort), sign = state.falling ? -1 : 1;
  files.sort((a, b) => sign * compare(of(a), of(b)) || compare(a.uri, b.uri));
  if (!$("file-rows").matches(":hover, :focus-within")) return files;
  const places = new Map([...rows.keys()].map((key, nth) => [key, nth]));
  return files.map((it, nth) => [places.get(resetPath(it)) ?? places.size + nth, it]).sort((a, b) => a[0] - b[0]).map(it => it[1]);
}

function showFiles() {
  const { files, files_total } = state.stats, searched = $("search").value !== "";
  const matching = inOrder(found());
  const shown = matching.slice(0, state.all ? undefined : ROWS);
  const part = files.length < files_total ? `The ${count(files.length)} most recently used of ${whole(files_total)} files.` : files_total === 1 ? "1 file." : `${count(files_total)} files.`;
  setText($("files-note"), searched ? `${count(matching.length)} of ${count(files.length)} match.` : part);
  const kept = new Map(shown.map(it => [resetPath(it), rows.get(resetPath(it)) ?? newRow(it)]));
  for (const [key, row] of rows) if (!kept.has(key)) row.remove();
  rows.clear();
  const body = $("file-rows");
  body.querySelector(".empty")?.remove();
  shown.forEach((it, nth) => {
    const row = kept.get(resetPath(it));
    rows.set(resetPath(it), row);
    if (body.children[nth] !== row) body.insertBefore(row, body.children[nth] ?? null);
    updateRow(row, it);
  });
  if (shown.length === 0) body.append(el("tr", { role: "row", class: "empty" }, el("td", { role: "cell", colspan: 6 },
    searched ? "No cached file matches." : "No file is cached. Files are cached when they are requested.")));
  $("more").hidden = matching.length <= ROWS;
  setText($("more"), state.all ? `Show the first ${ROWS}` : `Show all ${count(matching.length)}`);
  $("reset-shown").hidden = !searched || shown.length === 0;
  setText($("reset-shown"), `Reset the ${count(shown.length)} shown`);
}

function newRow(it) {
  const cell = (mark, unit) => el("td", { role: "cell", class: mark, "data-unit": unit });
  const button = el("button", { type: "button", "aria-label": `Reset ${it.uri}` }, "reset");
  button.addEventListener("click", () => resetAll([it]));
  return el("tr", { role: "row" }, el("th", { role: "rowheader", scope: "row" }, it.uri, it.overlay ? el("span", { class: "tag" }, "overlay") : null),
    cell("strategy"), cell("r"), cell("r", "requests"), cell("r idle", "idle"), el("td", { role: "cell", class: "r act" }, button));
}

function updateRow(row, it) {
  const [, strategy, size, requests, idle] = row.children;
  if (strategy.textContent !== it.strategy) strategy.replaceChildren(el("span", { class: "swatch " + colour(it.strategy) }), it.strategy);
  setText(size, bytes(it.size));
  size.title = `${count(it.size)} bytes`;
  setText(requests, whole(it.requests));
  setText(idle, duration(it.idle_s));
}

/** One after the other, so that a server under load is asked for one thing at a time. */
async function resetAll(files) {
  $("reset-shown").disabled = true;
  let done = 0, left = 0;
  try {
    for (const it of files) { left += Number((await ask("POST", resetPath(it))).evicted !== false); done += 1; }
    setText($("note"), files.length > 1 ? `${count(left)} files were removed from the cache.`
      : left ? `${files[0].uri} was removed from the cache; the next request loads it again.` : `${files[0].uri} was not in the cache any more.`);
  } catch (error) {
    setText($("note"), `Could not reset ${files[done].uri}: ${error.answered ? error.message : "no answer"}.`);
  }
  $("reset-shown").disabled = false;
}

function showHead() {
  $("file-head").replaceChildren(...COLUMNS.map(({ key, title, right }) => {
    const button = el("button", { type: "button" }, title);
    button.addEventListener("click", () => {
      [state.falling, state.sort] = [state.sort === key ? !state.falling : right === true, key];
      showHead();
      if (state.stats) showFiles();
      document.querySelector("#file-head [aria-sort] button").focus();
    });
    const sorted = state.sort === key ? (state.falling ? "descending" : "ascending") : null;
    return el("th", { role: "columnheader", scope: "col", class: right ? "r" : null, "aria-sort": sorted }, button);
  }), el("td", { role: "cell", class: "act" }));
}

// ---- controls

function theme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const label = () => setText($("theme"), isDark() ? "light" : "dark");
  $("theme").addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; label(); });
  system.addEventListener("change", label);
  label();
}

$("state").hidden = $("nav").hidden = false;
theme();
showHead();
pictures.start();
$("search").addEventListener("input", () => { if (state.stats) showFiles(); });
$("search-form").addEventListener("submit", event => event.preventDefault());
$("reset-shown").addEventListener("click", () => resetAll(found().slice(0, state.all ? undefined : ROWS).filter(it => !it.overlay)));
$("more").addEventListener("click", () => { state.all = !state.all; showFiles(); });
$("raw-box").addEventListener("toggle", () => { if (state.stats) show(); });
$("access").addEventListener("submit", event => {
  event.preventDefault();
  token = $("token").value;
  remember(TOKEN, token);
  $("token").value = "";
});
poll();
