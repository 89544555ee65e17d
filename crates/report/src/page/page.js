(() => {
  const $ = (q, e = document) => [...e.querySelectorAll(q)];
  const root = document.documentElement, tip = document.getElementById("tip");
  // Lists of like objects are stored as tables: {"@": names, rows}.
  const unpack = (k, v) => (v?.["@"] ? v.rows.map((row) => Object.fromEntries(v["@"].map((name, i) => [name, row[i]]))) : v);
  const DATA = JSON.parse(document.getElementById("data").textContent, unpack);
  root.classList.add("js");

  // Theme: the system's choice until the reader makes one.
  const theme = document.getElementById("theme"), media = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : media.matches);
  const showTheme = () => (theme.textContent = dark() ? "light" : "dark");
  theme.hidden = false;
  try { const t = localStorage.getItem("bench-theme"); if (t) root.dataset.theme = t; } catch {}
  theme.onclick = () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("bench-theme", root.dataset.theme); } catch {}
    showTheme();
  };
  showTheme();

  // What the reader chose lives in the address: #f=two+words&s=WORKLOAD&t=2&u=ms; the second matrix has m2-f and so on. An
  // address without “=” leads to a place of the page.
  const chosen = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const choose = (key, value) => {
    const all = chosen();
    if (value === "") all.delete(key); else all.set(key, value);
    history.replaceState(null, "", `${all}` ? `#${all}` : location.pathname + location.search);
  };
  const restorers = [];
  const restore = () => { const all = chosen(); restorers.forEach((f) => f((key) => all.get(key) ?? "")); };

  const say = (e, s) => {
    tip.textContent = s;
    tip.hidden = false;
    const b = tip.getBoundingClientRect();
    tip.style.left = Math.max(6, Math.min(e.clientX + 14, innerWidth - b.width - 6)) + "px";
    tip.style.top = (e.clientY - b.height - 12 < 4 ? e.clientY + 16 : e.clientY - b.height - 12) + "px";
  };
  const hush = () => { tip.hidden = true; $(".mark").forEach((m) => m.remove()); };
  addEventListener("keydown", (k) => { if (k.key === "Escape") hush(); });
  // What a mark says is its label to a screen reader, too. Tab stops once in a picture, and arrows go from mark to mark.
  const ARROWS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  const within = (at, length) => Math.max(0, Math.min(length - 1, at));
  $("[data-t], .cell[aria-label]").forEach((g) => {
    const words = g.dataset.t ?? g.getAttribute("aria-label");
    g.addEventListener("pointermove", (e) => say(e, words));
    g.addEventListener("pointerleave", hush);
    g.addEventListener("focus", () => { const b = g.getBoundingClientRect(); say({ clientX: b.left, clientY: b.top }, words); });
    g.addEventListener("blur", hush);
  });
  $("svg:has([data-t])").forEach((picture) => {
    const marks = $("[data-t]", picture);
    if (picture.getAttribute("role") === "img") picture.setAttribute("role", "group");
    marks.forEach((g, i) => {
      g.setAttribute("tabindex", i ? -1 : 0);
      g.setAttribute("role", "img");
      g.setAttribute("aria-label", g.dataset.t);
      g.addEventListener("keydown", (k) => {
        const [down, right] = ARROWS[k.key] ?? [0, 0], next = marks[within(i + down + right, marks.length)];
        if (next === g) return;
        k.preventDefault();
        g.setAttribute("tabindex", -1);
        next.setAttribute("tabindex", 0);
        next.focus();
      });
    });
  });

  const press = (e, f) => {
    e.tabIndex = 0;
    e.setAttribute("role", "button");
    e.addEventListener("click", f);
    e.addEventListener("keydown", (k) => { if (k.key === "Enter" || k.key === " ") { k.preventDefault(); f(); } });
  };

  // Times in the unit that the reader chose; “auto” is as drawn.
  let unit = "auto";
  const time = (v) => {
    if (unit === "µs") return +v.toPrecision(3) + " µs";
    if (unit === "ms") return +(v / 1000).toPrecision(3) + " ms";
    return v < 999.5 ? +v.toPrecision(3) + " µs" : v < 999500 ? +(v / 1000).toPrecision(3) + " ms" : +(v / 1e6).toPrecision(3) + " s";
  };
  const showUnit = (u) => {
    unit = ["µs", "ms"].includes(u) ? u : "auto";
    $("[data-unit]").forEach((b) => b.setAttribute("aria-pressed", b.dataset.unit === unit));
    $("[data-us]").forEach((t) => { t.dataset.auto ??= t.textContent; t.textContent = unit === "auto" ? t.dataset.auto : time(+t.dataset.us); });
  };
  $(".units").forEach((p) => (p.hidden = false));
  $("[data-unit]").forEach((b) => b.addEventListener("click", () => { showUnit(b.dataset.unit); choose("u", unit === "auto" ? "" : unit); }));
  restorers.push((get) => showUnit(get("u")));

  const ORDERED = $("article").map((A) => [A.dataset.server, $("[id$=raw] tr", A)]);
  // A matrix: its pictures, its table and its filter.
  $("article").forEach((A, i) => {
    const D = DATA.matrices[i], p = A.dataset.p, own = (name) => document.getElementById(p + name);
    const figures = (s, w) => D.results.find((r) => r.cell === D.cells[s] && r.workload === D.workloads[w])?.figures;
    // Read-outs: nearest point of a curve, or the words of a mark.
    const percentile = (x) => "p" + +(100 * (1 - 1 / x)).toPrecision(x > 900 ? 4 : 3);
    const rate = (v) => (v >= 1e6 ? +(v / 1e6).toPrecision(3) + " M/s" : v >= 1e3 ? +(v / 1e3).toPrecision(3) + " k/s" : +v.toPrecision(3) + "/s");
    const latencies = (s, w, pick) => {
      const r = figures(s, w), out = {};
      for (const name of ["response", "service"]) if (r?.[name]) out[name] = pick(r[name]);
      return out;
    };
    const each = (w, pick) => Object.fromEntries(Object.keys(D.cells).map((s) => [s, pick(figures(s, w)) ?? []]));
    // Per kind of picture: its curves by name, and what a point says.
    const KINDS = {
      lat: [(m) => latencies(m.s, m.w, (l) => l.points.filter((q) => q.x >= m.x[0]).map((q) => [q.x, q.us])),
        (m, name, x, y) => `${D.label[m.s]}, ${name}: ${percentile(x)} ${time(y)}`],
      hist: [(m) => latencies(m.s, m.w, (l) => (l.density ?? []).map((q) => [q.us * 10 ** 0.05, q.share])),
        (m, name, x, y) => `${D.label[m.s]}, ${name}: ${+(100 * y).toPrecision(2)} % at about ${time(x)}`],
      load50: [(m) => each(m.w, (r) => r?.sweep?.map((q) => [q.served_rps, q.p50.median])),
        (m, s, x, y) => `${D.label[s]}: ${rate(x)}, p50 ${time(y)}`],
      load99: [(m) => each(m.w, (r) => r?.sweep?.map((q) => [q.served_rps, q.p99.median])),
        (m, s, x, y) => `${D.label[s]}: ${rate(x)}, p99 ${time(y)}`],
      rate: [(m) => each(m.w, (r) => r?.windows?.map((q) => [q.s, q.rps])),
        (m, s, x, y) => `${D.label[s]}: at ${x.toFixed(1)} s ${rate(y)}`],
      p99: [(m) => each(m.w, (r) => r?.windows?.map((q) => [q.s, q.p99_us])),
        (m, s, x, y) => `${D.label[s]}: at ${x.toFixed(1)} s p99 ${time(y)}`],
      errors: [(m) => each(m.w, (r) => r?.windows?.map((q) => [q.s, q.errors_rps ?? 0])),
        (m, s, x, y) => `${D.label[s]}: at ${x.toFixed(1)} s ${rate(y)} failed`],
      lag: [(m) => each(m.w, (r) => r?.windows?.map((q) => [q.s, q.lag_us ?? 0])),
        (m, s, x, y) => `${D.label[s]}: at ${x.toFixed(1)} s the generator was ${time(y)} late`],
    };
    const hidden = new Set();
    $("[data-plot]", A).forEach((r) => {
      const m = JSON.parse(r.dataset.plot);
      const at = ([v0, v1, p0, p1, log], v) => (log ? p0 + (Math.log(v / v0) / Math.log(v1 / v0)) * (p1 - p0) : p0 + ((v - v0) / (v1 - v0)) * (p1 - p0));
      const [curves, words] = KINDS[m.f];
      const px = Object.entries(curves(m)).map(([s, pts]) => [s, pts.map(([x, y]) => [at(m.x, x), at(m.y, y), x, y])]);
      const read = (e, s, q) => {
        const c = document.createElementNS(r.namespaceURI, "circle");
        hush();
        c.setAttribute("cx", q[0]); c.setAttribute("cy", q[1]); c.setAttribute("r", 4);
        c.setAttribute("class", "mark");
        c.style.stroke = `var(--${m.s || s})`;
        r.after(c);
        say(e, words(m, s, q[2], q[3]));
      };
      r.addEventListener("pointermove", (e) => {
        const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(r.getScreenCTM().inverse());
        let best = null, bd = 40 * 40;
        for (const [s, pts] of px) if (!hidden.has(s)) for (const q of pts) {
          const d = (q[0] - p.x) ** 2 + (q[1] - p.y) ** 2;
          if (d < bd) [bd, best] = [d, [s, q]];
        }
        if (best) read(e, ...best); else hush();
      });
      // By keys: left and right along a curve, up and down to the others.
      let curve = 0, point = 0;
      const go = (down, right) => {
        const shown = px.filter(([s, pts]) => !hidden.has(s) && pts.length);
        if (!shown.length) return;
        curve = within(curve + down, shown.length);
        const [s, pts] = shown[curve];
        point = within(point + right, pts.length);
        const p = new DOMPoint(...pts[point]).matrixTransform(r.getScreenCTM());
        read({ clientX: p.x, clientY: p.y }, s, pts[point]);
      };
      r.setAttribute("tabindex", 0);
      r.setAttribute("role", "img");
      r.setAttribute("aria-label", "Curves: arrow keys read out their points");
      r.ownerSVGElement.setAttribute("role", "group");
      r.addEventListener("focus", () => go(0, 0));
      r.addEventListener("blur", hush);
      r.addEventListener("keydown", (k) => { if (ARROWS[k.key]) { k.preventDefault(); go(...ARROWS[k.key]); } });
      r.addEventListener("pointerleave", hush);
    });

    // Series on and off, in every picture that has a key.
    $("[data-key]", A).forEach((e) => {
      const s = e.dataset.key;
      e.setAttribute("aria-pressed", "true");
      press(e, () => {
        if (!hidden.delete(s)) hidden.add(s);
        $(`[data-s="${s}"]`, A).forEach((o) => o.classList.toggle("off", hidden.has(s)));
        $(`[data-key="${s}"]`, A).forEach((o) => o.setAttribute("aria-pressed", !hidden.has(s)));
      });
    });

    // Heat map: sort by a column, once more for the drawn order.
    const heads = $(".colh", A), nameOf = (h) => D.workloads[h.dataset.w];
    const sortMap = (workload) => {
      heads.forEach((h) => { h.classList.toggle("on", nameOf(h) === workload); h.setAttribute("aria-pressed", nameOf(h) === workload); });
      $(".rows", A).forEach((rows) => {
        const all = $(".row", rows), head = heads.find((h) => h.ownerSVGElement === rows.ownerSVGElement && nameOf(h) === workload);
        all.forEach((r) => (r.dataset.home ??= r.getAttribute("transform")));
        if (!head) return all.forEach((r) => r.setAttribute("transform", r.dataset.home));
        const v = (r) => { const t = r.dataset.v.split(",")[head.dataset.col]; return t === "" ? Infinity : +t; };
        [...all].sort((a, b) => v(a) - v(b)).forEach((r, i) => r.setAttribute("transform", `translate(0 ${+rows.dataset.top + i * rows.dataset.rh})`));
      });
    };
    heads.forEach((h) => press(h, () => {
      const workload = h.classList.contains("on") ? "" : nameOf(h);
      sortMap(workload);
      choose(p + "s", workload);
    }));
    restorers.push((get) => sortMap(get(p + "s")));

    // Table: sort by a column, once more the other way round. “3” is the fourth column rising, “-3” falling.
    const table = own("raw"), tbody = table.tBodies[0], drawn = [...tbody.rows], columns = $("thead th", table);
    const sortTable = (order) => {
      const i = order === "" ? -1 : Math.abs(parseInt(order)), up = !order.startsWith("-");
      columns.forEach((th, k) => (k === i ? th.setAttribute("aria-sort", up ? "ascending" : "descending") : th.removeAttribute("aria-sort")));
      table.classList.toggle("sorted", i >= 0);
      const v = (r) => { const c = r.cells[i]; if (!c || c.colSpan > 1) return null; const n = parseFloat(c.textContent.replaceAll(",", "")); return i < 3 || Number.isNaN(n) ? c.textContent : n; };
      const compare = (a, b) => {
        const [x, y] = [v(a), v(b)], known = (q) => q !== null && q !== "n/a";
        if (!known(x) || !known(y)) return known(y) - known(x);
        return (typeof x === "number" && typeof y === "number" ? x - y : `${x}`.localeCompare(`${y}`)) * (up ? 1 : -1);
      };
      (i < 0 ? drawn : [...drawn].sort(compare)).forEach((r) => tbody.append(r));
    };
    columns.forEach((th, i) => press(th, () => {
      const order = th.getAttribute("aria-sort") === "ascending" ? `-${i}` : `${i}`;
      sortTable(order);
      choose(p + "t", order);
    }));
    restorers.push((get) => sortTable(/^-?\d+$/.test(get(p + "t")) ? get(p + "t") : ""));

    // Filter: every word must occur in the label, the id, a level or the workload of a cell. “key=level” is a word, too.
    const bar = own("filterbar"), input = own("filter"), count = own("fcount");
    const texts = Object.fromEntries(Object.entries(D.cells).map(([s, id]) => {
      return [s, [D.label[s], id, ...D.levels[s]].join("\n")];
    }));
    const apply = () => {
      const words = input.value.toLowerCase().split(/\s+/);
      const keep = (s, w) => { const text = `${texts[s]}\n${w}`.toLowerCase(); return words.every((word) => text.includes(word)); };
      let shown = 0;
      drawn.forEach((r) => { const k = keep(r.id.split("-").at(-2), r.cells[1].textContent); r.classList.toggle("off", !k); shown += k; });
      $(".row .cell", A).forEach((c) => c.classList.toggle("dim", !keep(c.closest(".row").dataset.r, D.workloads[c.dataset.w])));
      $(".row", A).forEach((r) => r.classList.toggle("none", !r.querySelector(".cell:not(.dim)")));
      heads.forEach((h) => h.classList.toggle("none", !$(`.cell[data-w="${h.dataset.w}"]:not(.dim)`, h.ownerSVGElement).length));
      count.textContent = input.value.trim() ? `${shown} of ${drawn.length} cells` : "";
    };
    bar.hidden = false;
    input.addEventListener("input", () => { apply(); choose(p + "f", input.value.trim()); });
    input.addEventListener("keydown", (k) => { if (k.key === "Escape") { input.value = ""; input.dispatchEvent(new Event("input")); } });
    restorers.push((get) => { if (get(p + "f") !== input.value.trim()) input.value = get(p + "f"); apply(); });
  });

  // A section may be folded: not every browser opens what it is led to.
  const unfold = () => {
    if (location.hash.includes("=")) return restore();
    const target = document.getElementById(location.hash.slice(1));
    let wasFolded = false;
    for (let d = target?.closest("details"); d; d = d.parentElement.closest("details")) { wasFolded ||= !d.open; d.open = true; }
    if (wasFolded) target.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  restore();
  unfold();

  const save = (words, name, type, text) => {
    const a = document.createElement("a");
    a.textContent = words;
    a.download = name;
    a.href = URL.createObjectURL(new Blob([text], { type }));
    document.getElementById("dl").append(a, " ");
  };
  // The tables as they were drawn, every server's below the other.
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = ORDERED.flatMap(([server, rows]) => rows.map((r) => [server, ...[...r.cells].map((c) => c.textContent.trim())].map(quoted).join(",")));
  save("Save the table of all figures as CSV.", "figures.csv", "text/csv", lines.join("\n") + "\n");
})();
