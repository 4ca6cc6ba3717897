// Accuracy, softmax beside it, and the tables of candidates and rules.

const scientific = (value) => (value === null ? "-" : Number(value).toExponential(2));

function accuracy(problem) {
  const a = problem.accuracy;
  const node = section("accuracy", "Accuracy", a.missing ? [] : [a.device.startsWith("virtual") ? "counted" : "measured"],
    "Relative L2 error against a float64 reference on Gaussian inputs, what docs/accuracy.md allows, and the plain " +
    "kernel (portable, default tiles) on the same inputs.");
  if (!a.missing)
    put(node, "p", { class: "hint" }, `Computed on ${a.device}: ${a.sizes.seq_q} queries, ${a.sizes.seq_k} keys, ${a.sizes.heads} heads.`);
  add_chart(node, "accuracy", a, a.missing ? 0 : a.rows.length, (svg, width, mark) => bars(svg, width, mark,
    a.rows.map(([name, error, allowed, plain]) => ({ name, value: error, most: allowed, colour: error > allowed ? "--c-red" : "--c-green",
      text: scientific(error), tip: `${name}: ${scientific(error)}\nallowed ${scientific(allowed)} (the whole bar)\nthe plain kernel's ${scientific(plain)}` })), 60),
    "Error of each output as a part of what is allowed");
  if (a.missing) return;
  add_table(node, "accuracy table", [{ name: "output" }, { name: "relative L2 error", number: true, show: scientific },
    { name: "allowed", number: true, show: scientific }, { name: "the plain kernel's", number: true, show: scientific },
    { name: "worst element", number: true, show: scientific }, { name: "verdict", show: (ok) => (ok ? "within" : "beyond") }], a.rows);
}

// ---- against softmax

function comparison(problem) {
  const c = problem.compare;
  const node = section("compare", "Against softmax attention", c.missing || !c.means_something ? [] : ["measured"],
    "Speed over length beside softmax attention of the same shape, by the FLOP of softmax attention: LSSAR's own work " +
    "is more, so that equal lines are equal times.");
  if (!c.missing)
    put(node, "p", { class: c.means_something ? "hint" : "missing" }, c.means_something ? `${c.file}, on ${c.machine || "a GPU that it does not name"}.`
      : `${c.file} was not made on a GPU: its times mean nothing, and are shown to show the page.`);
  // A line per contender, and per kind of inputs where there are several.
  const kinds = c.missing ? [] : [...new Set(c.rows.map((row) => row[8]))];
  const name_of = (row) => (kinds.length > 1 ? `${row[0]}, ${row[8]}` : row[0]);
  const names = c.missing ? [] : [...new Set(c.rows.map(name_of))];
  const drawn = c.missing ? [] : c.rows.filter((row) => row[4] > 0);
  add_chart(node, "compare", c, drawn.length, (svg, width, mark) => {
    const height = 300, left = 52, right = width - 12, top = 22, bottom = height - 44;
    size(svg, width, height);
    const lengths = drawn.map((row) => row[1]), speeds = drawn.map((row) => row[4]);
    const x = log(Math.min(...lengths) / 1.15, Math.max(...lengths) * 1.15, left, right);
    x.ticks = [...new Set(lengths)].sort((a, b) => a - b);
    const y = linear(0, Math.max(...speeds) * 1.08, bottom, top);
    axis_y(svg, y, left, right, "TFLOP/s");
    axis_x(svg, x, bottom, top, left, right, "length (queries and keys)");
    names.forEach((name, i) => {
      const rows = drawn.filter((row) => name_of(row) === name).sort((a, b) => a[1] - b[1]);
      const colour = css(kLineColours[i % kLineColours.length]);
      put(svg, "svg:path", { d: rows.map((row, n) => `${n ? "L" : "M"}${x(row[1])},${y(row[4])}`).join(""), fill: "none", stroke: colour, "stroke-width": 1.8 });
      for (const row of rows)
        mark(put(svg, "svg:circle", { cx: x(row[1]), cy: y(row[4]), r: 4, fill: colour }), () =>
          `${row[0]}, length ${row[1]}\n${short(row[2])} ms, ${short(row[4])} TFLOP/s\n` +
          `${row[5] ? `${short(row[5], 3)} x cuDNN's time\n` : ""}batch ${row[6]}, ${row[7]} heads, ${row[8]}`);
    });
  }, "Speed of each contender over length");
  if (c.missing) return;
  legend(node, names.map((name, i) => [stroke(css(kLineColours[i % kLineColours.length])), name]));
  add_table(node, "compare table", [{ name: "contender" }, { name: "length", number: true }, { name: "ms", number: true, show: short },
    { name: "quartiles", show: (q) => (Array.isArray(q) ? q.map((v) => short(v)).join(" to ") : "-"), key: (q) => (Array.isArray(q) ? q[0] : null) },
    { name: "TFLOP/s", number: true, show: (v) => short(v) }, { name: "x cuDNN's time", number: true, show: (v) => short(v, 3) },
    { name: "batch", number: true }, { name: "heads", number: true }, { name: "data" }], c.rows);
}

// ---- candidates and rules

function candidates_table(problem) {
  const c = problem.candidates;
  const all = candidates_of(problem);
  const node = section("candidates", "Candidates", ["estimated", problem.evidence].filter(Boolean),
    `${count(problem.combinations)} combinations: ${problem.standings.filter(([, n]) => n > 0).map(([name, n]) => `${count(n)} ${name}`).join(", ")}` +
    `${problem.same_kernel ? `, ${count(problem.same_kernel)} the same kernel as another` : ""}` +
    `${problem.rejected.length ? `, ${count(problem.rejected.reduce((sum, rule) => sum + rule[1], 0))} not legal` : ""}. ` +
    `${all.length < c.total ? `The first ${count(all.length)} are listed (--shown).` : "All candidates are listed."}`);
  const controls = put(node, "div", { class: "controls" });
  const limit_of = (one) => c.resources[one.terms.indexOf(Math.max(...one.terms))];
  const chosen_ms = all[0].estimate_ms;
  const why = (one) => (one.standing === 0 ? `origin: ${problem.origin}` : one.reason ||
    `${short(one.estimate_ms / chosen_ms, 3)} x the chosen one's estimate; never tried`);
  const rows = all.map((one, i) => [i + 1, problem.standings[one.standing][0], one.estimate_ms, one.record_ms || null, one.evidence,
    one.error || null, one.registers < 0 ? null : one.registers, limit_of(one), one.difference || "the chosen schedule", why(one),
    problem.algorithms[one.algorithm] || "none of the space's"]);
  const table = add_table(node, "candidates", [{ name: "#", number: true }, { name: "standing", wraps: true },
    { name: "estimated ms", number: true, show: (v) => short(v) }, { name: problem.evidence ? `${problem.evidence} ms` : "table's ms", number: true, show: (v) => (v === null ? "" : short(v)) },
    { name: "evidence" }, { name: "error", number: true, show: (v) => (v === null ? "" : scientific(v)) },
    { name: "registers", number: true, show: (v) => (v === null ? "" : String(v)) }, { name: "limit" },
    { name: "differs from the chosen one by", wide: true }, { name: "why", wide: true }, { name: "algorithm", wide: true }], rows,
    { tall: true, row_class: (row) => (row[0] === 1 ? "chosen" : "") });
  const input = put(put(controls, "label", {}, "Filter "), "input", { type: "search", placeholder: "stages 6, spills, untried" });
  const found = put(controls, "span", {}, plural(rows.length, "row"));
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(",").map((w) => w.trim()).filter(Boolean);
    let shown = 0;
    for (const [row, tr] of table.nodes) {
      const text = row.join(" ").toLowerCase();
      tr.hidden = !words.every((w) => text.includes(w));
      shown += !tr.hidden;
    }
    found.textContent = plural(shown, "row");
  });
  if (problem.rejected.length === 0) return;
  put(node, "h3", {}, "Not legal: the rules, and the first that each forbids");
  add_table(node, "rules", [{ name: "field" }, { name: "combinations", number: true, show: count }, { name: "for example", wide: true }], problem.rejected);
}
