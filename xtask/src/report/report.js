(() => {
  const $ = (q, e = document) => [...e.querySelectorAll(q)];
  const root = document.documentElement, tip = document.getElementById("tip");
  const DATA = JSON.parse(document.getElementById("data").textContent);
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

  const say = (e, s) => {
    tip.textContent = s;
    tip.hidden = false;
    const b = tip.getBoundingClientRect();
    tip.style.left = Math.max(6, Math.min(e.clientX + 14, innerWidth - b.width - 6)) + "px";
    tip.style.top = (e.clientY - b.height - 12 < 4 ? e.clientY + 16 : e.clientY - b.height - 12) + "px";
  };
  const hush = () => { tip.hidden = true; $(".mark").forEach((m) => m.remove()); };
  $("[data-t]").forEach((g) => {
    g.addEventListener("pointermove", (e) => say(e, g.dataset.t));
    g.addEventListener("pointerleave", hush);
    g.addEventListener("focus", () => { const b = g.getBoundingClientRect(); say({ clientX: b.left, clientY: b.top }, g.dataset.t); });
    g.addEventListener("blur", hush);
  });

  const press = (e, f) => {
    e.tabIndex = 0;
    e.setAttribute("role", "button");
    e.addEventListener("click", f);
    e.addEventListener("keydown", (k) => { if (k.key === "Enter" || k.key === " ") { k.preventDefault(); f(); } });
  };

  // A matrix: its pictures, its table and its filter.
  $("article").forEach((A, i) => {
    const D = DATA.matrices[i], own = (name) => document.getElementById(A.dataset.p + name), key = `#${A.dataset.p}f=`;
    // Read-outs: nearest point of a curve, or the words of a mark.
    const us = (v) => (v < 999.5 ? v.toFixed(0) + " µs" : +(v / 1000).toPrecision(3) + " ms");
    const percentile = (x) => "p" + +(100 * (1 - 1 / x)).toPrecision(x > 900 ? 4 : 3);
    const words = (m, s, x, y) => `${D.label[m.s]}, ${s}: ${percentile(x)} ${us(y)}`;
    const curves = (m) => {
      const r = D.summary.results.find((r) => r.cell === D.cells[m.s] && r.workload === D.workloads[m.w]).outcome.measured;
      const points = (l) => (l ? l.points.filter((p) => p.x >= m.x[0]).map((p) => [p.x, p.us]) : []);
      return { response: points(r.response), service: points(r.service) };
    };
    $("[data-plot]", A).forEach((r) => {
      const m = JSON.parse(r.dataset.plot);
      const at = ([v0, v1, p0, p1, log], v) => (log ? p0 + (Math.log(v / v0) / Math.log(v1 / v0)) * (p1 - p0) : p0 + ((v - v0) / (v1 - v0)) * (p1 - p0));
      const px = Object.entries(curves(m)).map(([s, pts]) => [s, pts.map(([x, y]) => [at(m.x, x), at(m.y, y), x, y])]);
      r.addEventListener("pointermove", (e) => {
        const p = new DOMPoint(e.clientX, e.clientY).matrixTransform(r.getScreenCTM().inverse());
        let best = null, bd = 40 * 40;
        for (const [s, pts] of px) for (const q of pts) {
          const d = (q[0] - p.x) ** 2 + (q[1] - p.y) ** 2;
          if (d < bd) [bd, best] = [d, [s, q]];
        }
        hush();
        if (!best) return;
        const [s, q] = best, c = document.createElementNS(r.namespaceURI, "circle");
        c.setAttribute("cx", q[0]); c.setAttribute("cy", q[1]); c.setAttribute("r", 4);
        c.setAttribute("class", "mark");
        c.style.stroke = `var(--${m.s})`;
        r.after(c);
        say(e, words(m, s, q[2], q[3]));
      });
      r.addEventListener("pointerleave", hush);
    });

    // Heat map: sort by a column, once more for the drawn order.
    $(".colh", A).forEach((h) => press(h, () => {
      const svg = h.ownerSVGElement, rows = svg.querySelector(".rows"), on = !h.classList.contains("on");
      $(".colh", svg).forEach((o) => o.classList.remove("on"));
      h.classList.toggle("on", on);
      const all = $(".row", svg);
      all.forEach((r) => (r.dataset.home ??= r.getAttribute("transform")));
      if (!on) return all.forEach((r) => r.setAttribute("transform", r.dataset.home));
      const v = (r) => { const t = r.dataset.v.split(",")[h.dataset.col]; return t === "" ? Infinity : +t; };
      [...all].sort((a, b) => v(a) - v(b)).forEach((r, i) => r.setAttribute("transform", `translate(0 ${+rows.dataset.top + i * rows.dataset.rh})`));
    }));

    // Table: sort by a column.
    const table = own("raw"), tbody = table.tBodies[0];
    $("thead th", table).forEach((th, i) => press(th, () => {
      const up = th.getAttribute("aria-sort") !== "ascending";
      $("thead th", table).forEach((o) => o.removeAttribute("aria-sort"));
      table.classList.add("sorted");
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      const v = (r) => { const c = r.cells[i]; return !c || c.colSpan > 1 ? null : c.dataset.v ? +c.dataset.v : c.textContent; };
      [...tbody.rows].sort((a, b) => {
        const p = v(a), q = v(b);
        if (p === null || q === null) return (p === null) - (q === null);
        return (typeof p === "number" ? p - q : p.localeCompare(q)) * (up ? 1 : -1);
      }).forEach((r) => tbody.append(r));
    }));

    // Filter: the command line's syntax, terms joined by & or a comma: name=glob|glob, !term, or a bare glob. Kept in the address.
    const bar = own("filterbar"), input = own("filter"), count = own("fcount");
    const glob = (g) => new RegExp("^" + g.trim().replace(/[.+^${}()\\[\]]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".") + "$", "i");
    const parse = (text) => text.split(/[&,]/).map((t) => t.trim()).filter(Boolean).map((t) => {
      const not = t.startsWith("!"), [k, v] = t.replace(/^!/, "").includes("=") ? t.replace(/^!/, "").split("=") : ["", t.replace(/^!/, "")];
      return { not, k: k.trim(), g: v.split("|").map(k ? glob : (s) => glob("*" + s.trim() + "*")) };
    });
    const keep = (terms, s, w) => terms.every(({ not, k, g }) => {
      const name = D.label[s], on = (v) => g.some((r) => r.test(v));
      return not !== (k === "workload" ? on(w) : k ? on(D.facts[s][k] ?? "") || (k === "server" && on(name)) : on(name) || on(w));
    });
    const apply = () => {
      const terms = parse(input.value);
      let shown = 0;
      $("tbody tr", table).forEach((r) => {
        const k = keep(terms, r.dataset.r, r.dataset.wn);
        r.classList.toggle("off", !k);
        shown += k;
      });
      $(".row .cell", A).forEach((c) => c.classList.toggle("dim", !keep(terms, c.closest(".row").dataset.r, D.workloads[c.dataset.w])));
      $(".row", A).forEach((r) => r.classList.toggle("none", !r.querySelector(".cell:not(.dim)")));
      count.textContent = terms.length ? `${shown} of ${tbody.rows.length} cells` : "";
      if (location.hash.startsWith(key) || terms.length) history.replaceState(null, "", terms.length ? key + encodeURIComponent(input.value) : location.pathname);
    };
    bar.hidden = false;
    input.addEventListener("input", apply);
    if (location.hash.startsWith(key)) { input.value = decodeURIComponent(location.hash.slice(key.length)); apply(); }
  });

  const a = document.createElement("a");
  a.textContent = "Save them as JSON.";
  a.download = "summary.json";
  a.href = URL.createObjectURL(new Blob([JSON.stringify(DATA.matrices.map((m) => m.summary), null, 1)], { type: "application/json" }));
  document.getElementById("dl").append(a);
})();
