// Charts of all candidates: roofline, landscape of tile sizes, search over time.

const kStandingColours = ["--c-red", "--c-orange", "--c-grey", "--c-purple", "--c-sky", "--c-green"];
const css = (name) => `var(${name})`;
const field_names = {
  "forward.block_cols": "keys per tile", "forward.block_rows": "queries per block",
  "forward.stages": "stages", "forward.min_blocks": "blocks per SM",
  "hopper.score_cols": "keys per tile of pass 1", "dkdv.block_cols": "dk/dv: queries per tile",
  "dkdv.block_rows": "dk/dv: keys per block", "dkdv.stages": "dk/dv: stages",
  "dq.block_cols": "dq: keys per tile", "dq.block_rows": "dq: queries per block",
};
const field_name = (name) => field_names[name] ? `${field_names[name]} (${name})` : name;

// Rows of candidates as objects.
function candidates_of(problem) {
  const { columns, rows } = problem.candidates;
  return rows.map((row) => Object.fromEntries(columns.map((name, i) => [name, row[i]])));
}

function describe_candidate(problem, one) {
  const standing = problem.standings[one.standing][0];
  const lines = [one.difference || "the chosen schedule", standing];
  lines.push(`estimated ${short(one.estimate_ms)} ms`);
  if (one.record_ms > 0) lines.push(`${one.evidence} ${short(one.record_ms)} ms`);
  if (one.reason) lines.push(one.reason);
  return lines;
}

// ---- roofline

function roofline(problem) {
  const c = problem.candidates;
  const node = section("roofline", "Roofline", ["estimated", problem.evidence].filter(Boolean),
    "Every candidate by how much work it does per byte and how fast it is: under a slope, that memory " +
    "limits it; under a flat line, that unit does. Higher is faster. Work is useful FLOP (4 d per score " +
    "forward, 2.5 times that backward), the same for all candidates. Dashed: where the chosen kernel would be if " +
    "that unit alone limited it.");
  const memories = c.memories;
  let memory = memories.indexOf("L2");
  const controls = put(node, "div", { class: "controls" });
  const all = candidates_of(problem);
  const timed = all.filter((one) => one.record_ms > 0);
  const speed = (ms) => (c.flop / ms) * 1e-9;  // TFLOP/s
  const at = () => c.resources.indexOf(memories[memory]);
  const intensity = (one) => {
    const amount = one.terms[at()] * c.rates[at()];
    return amount > 0 ? c.flop / amount : null;
  };
  const bins = () => c.bins.filter((bin) => bin[0] === at());
  const expected = () =>
    all.filter(intensity).length + timed.filter(intensity).length + bins().length;
  const draw = (svg, width, mark) => {
    const height = Math.min(460, Math.max(320, width * 0.5)), left = 48, right = width - 12;
    const top = 30, bottom = height - 44;
    size(svg, width, height);
    const peak = (c.rates[c.resources.indexOf(c.peak)]) * 1e-9;
    const slope = c.rates[at()] * 1e-9;  // TFLOP/s per FLOP/byte
    const xs = all.map(intensity).filter(Boolean).concat(bins().flatMap((b) => [b[1], b[2]]), [peak / slope]);
    const ys = all.map((one) => speed(one.estimate_ms)).concat(
      timed.map((one) => speed(one.record_ms)), bins().flatMap((b) => [b[3], b[4]]), [peak * 1.05]);
    const min = (list) => list.reduce((a, b) => Math.min(a, b)), max = (list) => list.reduce((a, b) => Math.max(a, b));
    const ceilings = [1, 2].map((i) => speed(all[0].terms[i])).filter((v) => isFinite(v) && v < 3 * peak);
    const x0 = min(xs) / 1.5, x1 = max(xs) * 1.7, y0 = min(ys) / 1.25, y1 = max(ys.concat(ceilings)) * 1.2;
    const x = log(x0, x1, left, right), y = log(y0, y1, bottom, top);
    axis_y(svg, y, left, right, "useful TFLOP/s");
    axis_x(svg, x, bottom, top, left, right, `useful FLOP per byte of ${memories[memory]}`);
    roofs(svg, x, y, { x0, x1, y0, y1, peak, slope, left, right });
    const most = max(bins().map((b) => b[5]).concat([1]));
    for (const [, ax, bx, ay, by, n] of bins()) {
      mark(put(svg, "svg:rect", { x: x(ax), y: y(by), width: Math.max(1, x(bx) - x(ax)),
        height: Math.max(1, y(ay) - y(by)), fill: css("--c-sky"),
        "fill-opacity": (0.1 + 0.5 * Math.sqrt(n / most)).toFixed(2) }), () =>
        `${plural(n, "more candidate")}\n${short(ay)} to ${short(by)} TFLOP/s, estimated\n` +
        `${short(ax)} to ${short(bx)} FLOP per byte`);
    }
    [...all].reverse().forEach((one) => {
      if (!intensity(one)) return;
      const chosen = one.standing === 0, px = x(intensity(one));
      const colour = css(kStandingColours[one.standing]);
      const say = (ms, how) => () => describe_candidate(problem, one).concat(
        [`${how}: ${short(speed(ms))} TFLOP/s, ${short(intensity(one))} FLOP per byte`]).join("\n");
      mark(put(svg, "svg:circle", { cx: px, cy: y(speed(one.estimate_ms)), r: chosen ? 6 : 3.2,
        fill: chosen ? colour : "none", stroke: colour, "stroke-width": 1.4,
        "stroke-opacity": chosen ? 1 : 0.75, "pointer-events": "all" }), say(one.estimate_ms, "estimated"));
      if (one.record_ms > 0) {
        const py = y(speed(one.record_ms));
        put(svg, "svg:line", { x1: px, x2: px, y1: y(speed(one.estimate_ms)), y2: py, stroke: colour,
          "stroke-opacity": 0.4 });
        mark(put(svg, "svg:path", { d: `M${px},${py - 6} l6,6 l-6,6 l-6,-6 z`, fill: colour }),
          say(one.record_ms, one.evidence));
      }
    });
  };
  const roofs = (svg, x, y, o) => {
    const line = (x1, y1, x2, y2, colour, dash) => put(svg, "svg:line", { x1: x(x1), y1: y(y1), x2: x(x2),
      y2: y(y2), stroke: css(colour), "stroke-width": 1.6, "stroke-dasharray": dash || "none" });
    const name = (px, py, text, anchor) => put(svg, "svg:text", { x: px, y: py, "text-anchor": anchor, class: "value" }, text);
    const ridge = o.peak / o.slope;
    line(Math.min(ridge, o.x1), o.peak, o.x1, o.peak, "--ink");
    name(o.right - 4, y(o.peak) - 5, `${o.right > 500 ? c.peak_name : c.peak}: ${short(o.peak, 3)}`, "end");
    const from = Math.max(o.x0, o.y0 / o.slope);
    if (from < ridge) line(from, from * o.slope, ridge, o.peak, "--ink");
    name(x(Math.sqrt(from * ridge)) - 8, y(Math.sqrt(from * ridge) * o.slope),
      `${short(c.rates[at()] * 1e-9 , 3)} TB/s`, "end");
    const terms = candidates_of(problem)[0].terms;
    for (const [resource, colour] of [[c.resources[1], "--c-purple"], [c.resources[2], "--c-orange"]]) {
      // The speed of the chosen kernel if this resource alone limited it.
      const roof = speed(terms[c.resources.indexOf(resource)]);
      if (!isFinite(roof) || roof > o.y1 || roof < o.y0) continue;
      line(o.x0, roof, o.x1, roof, colour, "6 4");
      name(o.left + 6, y(roof) - 5, `${resource}: ${short(roof, 3)}`, "start");
    }
  };
  const chart = add_chart(node, "roofline", c, expected(), draw,
    "Roofline: speed over work per byte, one mark per candidate");
  choices(controls, "Memory", memories, memory, (i) => { memory = i; chart.redraw(expected()); });
  const used = new Set(all.map((one) => one.standing));
  legend(node, [...used].sort().map((s) => [dot({ fill: s === 0 ? css(kStandingColours[s]) : "none",
    stroke: css(kStandingColours[s]), "stroke-width": 1.5 }), problem.standings[s][0]]).concat(
    timed.length ? [[(svg) => put(svg, "svg:path", { d: "M8,0 l6,6 l-6,6 l-6,-6 z", fill: css("--c-grey") }),
      "with a time in the table: the diamond"]] : [],
    c.bins.length ? [[swatch(css("--c-sky"), { "fill-opacity": 0.4 }),
      `${count(c.total - all.length)} more candidates, by number`]] : []));
}

// ---- landscape

// Dark to light and blue to yellow (viridis, 9 of its colours): fast is dark.
const kHeat = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
function heat(share) {
  const at = Math.max(0, Math.min(1, share)) * (kHeat.length - 1), i = Math.min(kHeat.length - 2, Math.floor(at));
  const channel = (text, n) => parseInt(text.slice(1 + 2 * n, 3 + 2 * n), 16);
  const mix = [0, 1, 2].map((n) => Math.round(channel(kHeat[i], n) * (i + 1 - at) + channel(kHeat[i + 1], n) * (at - i)));
  return `rgb(${mix.join(",")})`;
}

function landscape(problem) {
  const chart_data = problem.landscape, fields = chart_data.fields || [];
  const node = section("landscape", "Tuning landscape", ["estimated", problem.evidence].filter(Boolean),
    "The best time of all candidates with these tile sizes, whatever else they choose. Dark is fast; " +
    "no cell: no legal candidate. The frame is the chosen schedule's cell.");
  const controls = put(node, "div", { class: "controls" });
  const values = (i) => [...new Set(chart_data.cells.map((cell) => cell[i + 1]))].sort((a, b) => a - b);
  const state = { x: 0, y: 1, by: -1, algorithm: -1, timed: 0 };
  const n = fields.length;
  // The best of the cells that share algorithm, x, y and the split value.
  const grouped = () => {
    const best = new Map();
    for (const cell of chart_data.cells) {
      if (state.algorithm >= 0 && cell[0] !== state.algorithm) continue;
      const ms = cell[n + 1 + state.timed];
      if (!(ms > 0)) continue;
      const key = [cell[state.x + 1], cell[state.y + 1], state.by < 0 ? 0 : cell[state.by + 1]].join();
      const known = best.get(key);
      const sum = { cell: !known || ms < known.ms ? cell : known.cell, ms: known ? Math.min(ms, known.ms) : ms,
        count: (known ? known.count : 0) + cell[n + 3], chosen: (known ? known.chosen : 0) | cell[n + 4] };
      best.set(key, sum);
    }
    return best;
  };
  const draw = (svg, width, mark) => {
    const best = grouped();
    const all = [...best.values()].map((one) => one.ms);
    const lowest = Math.min(...all), highest = Math.max(...all);
    const xs = values(state.x), ys = values(state.y).reverse();
    const facets = state.by < 0 ? [0] : values(state.by);
    const left = 46, cell_h = 26;
    let y = 0;
    for (const facet of facets) {
      y += 22;
      put(svg, "svg:text", { x: 0, y: y - 6, class: "strong" }, state.by < 0 ? field_name(fields[state.y])
        : `${field_name(fields[state.by])} = ${facet}`);
      const w = Math.min(92, (width - left) / xs.length);
      ys.forEach((vy, row) => {
        put(svg, "svg:text", { x: left - 6, y: y + row * cell_h + 17, "text-anchor": "end" }, vy);
        xs.forEach((vx, column) => {
          const one = best.get([vx, vy, state.by < 0 ? 0 : facet].join());
          if (!one) return;
          const share = highest > lowest ? Math.log(one.ms / lowest) / Math.log(highest / lowest) : 0;
          const px = left + column * w, py = y + row * cell_h;
          mark(put(svg, "svg:rect", { x: px + 1, y: py + 1, width: w - 2, height: cell_h - 2, rx: 3, fill: heat(share),
            stroke: one.chosen ? css("--c-red") : "none", "stroke-width": 3 }), () =>
            [`${short(one.ms)} ms, ${state.timed ? problem.evidence || "in the table" : "estimated"}`,
              `${short(one.ms / lowest)} x the best here`, `best of ${plural(one.count, "candidate")}`]
              .concat(fields.map((f, i) => `${f} ${one.cell[i + 1]}`), [problem.algorithms[one.cell[0]] || ""]).join("\n"));
          if (w > 24)
            put(svg, "svg:text", { x: px + w / 2, y: py + 17, "text-anchor": "middle", "pointer-events": "none",
              style: `fill:${share > 0.55 ? "#111" : "#fff"}; font-size:${w > 36 ? 11 : 9}px` }, short(one.ms, 3));
        });
      });
      y += ys.length * cell_h;
      const skip = Math.ceil(26 / w);
      xs.forEach((vx, column) => {
        if (column % skip === 0)
          put(svg, "svg:text", { x: left + (column + 0.5) * w, y: y + 15, "text-anchor": "middle" }, vx);
      });
      y += 20;
    }
    put(svg, "svg:text", { x: left, y: y + 14 }, field_name(fields[state.x]));
    size(svg, width, y + 20);
    range.replaceChildren();
    legend(range, highest === lowest ? [] : [[swatch(heat(0)), `${short(lowest)} ms`], [swatch(heat(0.5)), `${short(Math.sqrt(lowest * highest))} ms`],
      [swatch(heat(1)), `${short(highest)} ms`]]);
  };
  const range = document.createElement("div");
  const chart = add_chart(node, "landscape", chart_data, chart_data.missing ? 0 : grouped().size, draw,
    "Heat map of times over tile sizes");
  if (chart_data.missing) return;
  node.append(range);
  const update = () => chart.redraw(grouped().size);
  const has_times = chart_data.cells.some((cell) => cell[n + 2] > 0);
  if (has_times)
    choices(controls, "Time", ["estimated", problem.evidence || "in the table"], 0, (i) => { state.timed = i; update(); });
  const names = fields.map(field_name);
  selection(controls, "Across", names, 0, (i) => { state.x = i; update(); });
  selection(controls, "Down", names, 1, (i) => { state.y = i; update(); });
  selection(controls, "Split by", ["nothing", ...names], 0, (i) => { state.by = i - 1; update(); });
  if (problem.algorithms.length > 1)
    selection(controls, "Algorithm", ["the best of all", ...problem.algorithms], 0, (i) => { state.algorithm = i - 1; update(); });
}

// ---- search over time

function search_trace(problem) {
  const s = problem.search;
  const node = section("search", "Search over time", s.missing ? [] : [...new Set(s.rows.map((row) => row[4]))],
    "Every candidate with a record in the tuning table, by the moment the latest one was written; the line is the " +
    "best so far. Marks on the bottom line were ruled out, or not timed.");
  add_chart(node, "search", s, s.missing ? 0 : s.rows.length, (svg, width, mark) => {
    const height = 300, left = 52, right = width - 12, top = 22, bottom = height - 62;
    size(svg, width, height);
    const timed = s.rows.filter((row) => row[1] > 0 && row[3] === "ok");
    const last = s.rows[s.rows.length - 1][0];
    // If several records share a second, show them in order instead of by time.
    const by_order = last < s.rows.length / 4;
    const x = by_order ? linear(1, s.rows.length, left, right) : linear(0, last, left, right);
    const times = timed.map((row) => row[1]);
    const y = times.length ? log(Math.min(...times) / 1.04, Math.max(...times) * 1.04, bottom, top) : log(1, 10, bottom, top);
    axis_y(svg, y, left, right, "ms");
    axis_x(svg, x, bottom + 18, top, left, right, by_order ? "records, in their order" : `seconds after ${s.begin}`);
    const place = (row, i) => x(by_order ? i + 1 : row[0]);
    let best = Infinity, path = "";
    s.rows.forEach((row, i) => {
      if (!(row[1] > 0) || row[3] !== "ok" || row[1] >= best) return;
      path += path ? `H${place(row, i)}V${y(row[1])}` : `M${place(row, i)},${y(row[1])}`;
      best = row[1];
    });
    if (path) put(svg, "svg:path", { d: `${path}H${right}`, fill: "none", stroke: css("--c-red"), "stroke-width": 2 });
    const searches = [...new Set(s.rows.map((row) => row[5]))];
    const colours = ["--c-blue", "--c-green", "--c-orange", "--c-purple", "--c-sky"];
    s.rows.forEach((row, i) => {
      const [seconds, ms, estimate, verdict, evidence, search, difference] = row;
      const ok = verdict === "ok" && ms > 0;
      const colour = css(verdict === "ok" ? colours[searches.indexOf(search) % colours.length] : "--c-red");
      const node = ok ? put(svg, "svg:circle", { cx: place(row, i), cy: y(ms), r: 3.2, fill: colour, "fill-opacity": 0.75 })
        : put(svg, "svg:path", { d: `M${place(row, i) - 3},${bottom + 9}l6,6m0,-6l-6,6`, stroke: colour, "stroke-width": 1.4, fill: "none" });
      mark(node, () => [difference, ms > 0 ? `${evidence} ${short(ms)} ms` : "not timed", `verdict ${verdict}`,
        `estimated ${short(estimate)} ms`, `${seconds} s, search ${search}`].join("\n"));
    });
  }, "Times of candidates over the time of the search");
  if (!s.missing)
    legend(node, [[stroke(css("--c-red")), "best so far"], [dot({ fill: css("--c-blue") }), "a candidate; one colour per search"],
      [(svg) => put(svg, "svg:path", { d: "M5,3l6,6m0,-6l-6,6", stroke: css("--c-red"), "stroke-width": 1.4 }), "ruled out, or not timed"]]);
}
