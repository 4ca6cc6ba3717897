// Charts of the chosen kernel: resources, shared memory, its hot loops, the block's timeline.

const kStageColours = ["--c-blue", "--c-green", "--c-orange", "--c-purple", "--c-sky", "--c-yellow"];

// Horizontal bars: rows of {name, value, most, text, tip, colour, limit}.
function bars(svg, width, mark, rows, label_width) {
  const h = 24, left = Math.min(label_width, width * 0.36), room = width - left - 92;
  rows.forEach((row, i) => {
    const y = i * h;
    put(svg, "svg:text", { x: left - 8, y: y + 16, "text-anchor": "end" }, row.name);
    put(svg, "svg:rect", { x: left, y: y + 3, width: room, height: h - 7, rx: 3, fill: css("--grid") });
    mark(put(svg, "svg:rect", { x: left, y: y + 3, width: Math.max(0.5, room * Math.min(1, row.value / row.most)),
      height: h - 7, rx: 3, fill: css(row.colour) }), () => row.tip);
    put(svg, "svg:text", { x: left + room + 8, y: y + 16, class: "value" }, row.text);
  });
  size(svg, width, rows.length * h + 4);
}

function resources(problem) {
  const node = section("resources", "Resources", ["estimated", problem.kernels.missing ? "" : "compiled", problem.counted.missing ? "" : "counted"].filter(Boolean),
    "What the chosen kernel takes of each resource. Estimated terms are as if each resource were alone; they " +
    "overlap, so that they do not add up to the estimate.");
  const e = problem.estimate;
  put(node, "h3", {}, "Time by resource, estimated");
  const terms = problem.candidates.resources.map((name) => [name, e.terms_ms[name], "--c-blue"]);
  terms.push(["stalls", e.stall_ms, "--c-orange"], ["launches", e.launch_ms, "--c-orange"], ["all, overlapped", e.ms, "--c-red"]);
  add_chart(node, "terms", terms, terms.length, (svg, width, mark) => bars(svg, width, mark,
    terms.map(([name, ms, colour]) => ({ name, value: ms, most: e.ms, colour, text: `${short(ms, 3)} ms`,
      tip: `${name}: ${short(ms)} ms\n${short((100 * ms) / e.ms, 3)} % of the estimate` + (ms === e.ms
        ? `\n${problem.units} that idle at the end: ${short(e.wave_factor)} x` +
          (problem.units === "SMs" ? `\n${plural(e.blocks_per_sm, "block")} per SM` : "") : "") })), 140), "Estimated time by resource");
  const columns = put(node, "div", { class: "columns" });
  kernel_bars(problem, put(columns, "div"));
  instruction_bars(problem, put(columns, "div"));
}

function kernel_bars(problem, parent) {
  const k = problem.kernels;
  put(parent, "h3", {}, k.missing ? "An SM's resources, compiled" : `An SM's resources, compiled by ${k.compiler}`);
  const rows = [];
  if ((k.kernels || []).some((kernel) => kernel.registers === null))
    put(parent, "p", { class: "hint" }, `Registers are not known: ${k.compiler} makes PTX, and the driver its machine code; with NVRTC they are.`);
  for (const kernel of k.kernels || []) {
    const name = kernel.entry.replace("lssar_", "");
    const limit = problem.shared.limit || 232448;
    const shared = kernel.dynamic_shared_bytes + (kernel.static_shared_bytes || 0);
    if (kernel.registers !== null)
      rows.push({ name: `${name}: registers`, value: kernel.registers, most: k.register_limit, colour: "--c-blue", text: kernel.registers,
        tip: `${kernel.entry}: ${kernel.registers} registers per thread\nof ${k.register_limit}; spilt: ${bytes((kernel.spill_store_bytes || 0) + (kernel.spill_load_bytes || 0))}` });
    rows.push({ name: "shared memory", value: shared, most: limit, colour: "--c-green", text: bytes(shared),
      tip: `${kernel.entry}: ${count(shared)} bytes of shared memory\nof ${count(limit)} that a block may have` });
    rows.push({ name: "warps", value: kernel.warps_per_sm, most: kernel.most_warps_per_sm, colour: "--c-purple",
      text: `${kernel.warps_per_sm} of ${kernel.most_warps_per_sm}`,
      tip: `${kernel.entry}: ${plural(kernel.blocks_per_sm, "block")} of ${plural(kernel.threads, "thread")} per SM\n` +
        `${kernel.warps_per_sm} of ${kernel.most_warps_per_sm} warps; limited by ${kernel.occupancy_limit}` });
  }
  add_chart(parent, "kernels", k, rows.length, (svg, width, mark) => bars(svg, width, mark, rows, 170),
    "Registers, shared memory and warps of each kernel");
}

function instruction_bars(problem, parent) {
  const c = problem.counted;
  put(parent, "h3", {}, "Instructions, counted");
  const rows = [];
  for (const kernel of c.kernels || []) {
    const all = kernel.classes.reduce((sum, [, n]) => sum + n, 0);
    if (all === 0 || kernel !== c.kernels.reduce((a, b) => (a.warp_instructions > b.warp_instructions ? a : b))) continue;
    for (const [name, n] of [...kernel.classes].sort((a, b) => b[1] - a[1]))
      rows.push({ name, value: n, most: all, colour: "--c-purple", text: `${short((100 * n) / all, 3)} %`,
        tip: `${name}: ${count(n)} of ${count(all)} warp instructions\n${kernel.kernel}` });
    put(parent, "p", { class: "hint" }, `${kernel.kernel}, ${c.sizes.seq_q} x ${c.sizes.seq_k}: ${count(all)} warp instructions, ` +
      `${count(kernel.lost_wavefronts)} of ${count(kernel.shared_wavefronts)} passes of shared memory lost to bank conflicts, ` +
      `${bytes(kernel.tma_load_bytes)} loaded by TMA.`);
  }
  add_chart(parent, "instructions", c, rows.length, (svg, width, mark) => bars(svg, width, mark, rows, 130),
    "Instructions by class");
}

// ---- shared memory

function shared_memory(problem) {
  const s = problem.shared;
  const node = section("shared", "Shared memory map", ["compiled"],
    "A block's dynamic shared memory to scale, from address 0 to what a block may have. Parts of one stage of the ring " +
    "have one colour. The emitted source asserts that the device's layout is as large.");
  if (s.missing) { add_chart(node, "shared", s, 0); return; }
  for (const kernel of s.kernels) {
    put(node, "h3", {}, `${kernel.entry}: ${count(kernel.bytes)} of ${count(s.limit)} bytes`);
    add_chart(node, `shared ${kernel.entry}`, kernel, kernel.parts.length, (svg, width, mark) => {
      const height = 64, x = linear(0, s.limit, 0, width);
      put(svg, "svg:rect", { x: 0, y: 0, width, height, fill: "none", stroke: css("--line") });
      let once = 0;
      for (const [name, what, offset, size_bytes, stage] of kernel.parts) {
        const w = x(size_bytes) - x(0), px = x(offset);
        const colour = stage >= 0 ? kStageColours[stage % kStageColours.length] : ["--c-red", "--c-grey"][once++ % 2];
        mark(put(svg, "svg:rect", { x: px, y: 0, width: Math.max(w, 0.75), height, fill: css(colour), "fill-opacity": 0.78,
          stroke: css("--panel"), "stroke-width": w > 4 ? 1 : 0 }), () =>
          `${name}${stage >= 0 ? `, stage ${stage}` : ""}\n${what}\n${count(size_bytes)} bytes at ${count(offset)} (0x${offset.toString(16)})\n` +
          `${short((100 * size_bytes) / kernel.bytes, 3)} % of the kernel's`);
        const text = stage >= 0 ? `${name} ${stage}` : name;
        const room = Math.floor(w / 6.4);
        if (room >= 4)
          put(svg, "svg:text", { x: px + w / 2, y: height / 2 + 4, "text-anchor": "middle", "pointer-events": "none",
            style: "fill:#fff;font-size:11px;paint-order:stroke;stroke:rgb(0 0 0/45%);stroke-width:2px" },
            text.length <= room ? text : stage >= 0 ? String(stage) : `${text.slice(0, room - 1)}.`);
      }
      for (const t of linear(0, s.limit / 1024, 0, width).ticks)
        put(svg, "svg:text", { x: Math.max(10, Math.min(width - 16, x(t * 1024))), y: height + 15, "text-anchor": "middle" }, t);
      put(svg, "svg:text", { x: width / 2, y: height + 32, "text-anchor": "middle" }, "address in KiB");
      size(svg, width, height + 38);
    }, `Shared memory of ${kernel.entry}, by address`);
    const by_name = new Map();
    for (const [name, what, , size_bytes] of kernel.parts) {
      const sum = by_name.get(name) || [name, what, 0, size_bytes, 0];
      sum[2] += 1; sum[4] += size_bytes;
      by_name.set(name, sum);
    }
    add_table(node, `parts of ${kernel.entry}`, [{ name: "part" }, { name: "what for" }, { name: "how many", number: true },
      { name: "bytes each", number: true, show: count }, { name: "bytes", number: true, show: count }], [...by_name.values()]);
  }
}

// ---- hot loops

// What a clock goes to, by the names of the timing model: colour and opacity. Work first, then waits.
const kUseStyles = {
  issue: ["--c-green", 0.9], "other warp": ["--c-green", 0.4], stall: ["--c-yellow", 0.8], fma: ["--c-blue", 1],
  alu: ["--c-blue", 0.6], uniform: ["--c-blue", 0.3], special: ["--c-purple", 0.9], shared: ["--c-orange", 0.9],
  memory: ["--c-orange", 0.5], tensor: ["--c-red", 0.85], turn: ["--c-sky", 0.7], data: ["--c-purple", 0.4], sync: ["--c-grey", 0.8],
};
const kUseTexts = {
  issue: "it issues an instruction", "other warp": "it could issue, but another warp does", stall: "the count that the assembler wrote into its last instruction",
  fma: "both pipes of multiply-adds are busy", alu: "the pipe of integers, comparisons and conversions is busy", uniform: "the pipe of scalars is busy",
  special: "special functions: the unit is full, or a result is not there", shared: "shared memory: the unit is full, or a load or shuffle is not there",
  memory: "a result of another load", tensor: "products: the tensor cores are full, or a sum is not there", turn: "another warp's turn, or warps that meet",
  data: "tiles: the test of their barrier, or the L2 that brings them", sync: "fences and barriers",
};
const hex = (address) => `0x${address.toString(16).padStart(4, "0")}`;

// The ways through the hot loops, with what tells them apart.
function ways_of(loops) {
  return loops.flatMap((loop) => {
    const of_kernel = loops.filter((one) => one.kernel === loop.kernel);
    const name = `${loop.kernel.replace("lssar_", "")}${of_kernel.length > 1 ? ` ${of_kernel.indexOf(loop) + 1}` : ""}`;
    return loop.ways.map((way, i) => ({ loop, way, per: way.scores > 0 ? way.scores : 1,
      name: loop.ways.length > 1 ? `${name}, way ${i + 1}` : name }));
  });
}

function hot_loops(problem) {
  const t = problem.timing;
  const node = section("timing", "Hot loops", t.missing ? [] : ["predicted"],
    "An iteration of every loop with matrix products, played from the machine code on a model of one scheduler of an SM: " +
    "what the clocks of a warp that multiplies go to. A short bar is a fast loop. The line across a bar is what the " +
    "resource that it takes most of needs at least: no order of its instructions is faster. Nothing was run.");
  const ways = t.missing ? [] : ways_of(t.loops);
  const has_scores = ways.every(({ way }) => way.scores > 0);
  const unit = has_scores ? "clocks of the SM per score" : "clocks of an iteration";
  const rows = ways.map((one) => ({ ...one, per: has_scores ? one.per : 1,
    least: Object.entries(one.way.bounds).reduce((a, b) => (b[1] > a[1] ? b : a)),
    uses: Object.keys(kUseStyles).map((use) => [use, one.way.uses[use]]).filter(([, clocks]) => clocks > 0) }));
  add_chart(node, "timing", t, rows.reduce((sum, row) => sum + row.uses.length, 0), (svg, width, mark) => {
    const h = 30, left = 14 + 6.8 * Math.max(...rows.map((row) => row.name.length)), right = width - 56, bottom = rows.length * h + 4;
    const x = linear(0, Math.max(...rows.map((row) => row.way.predicted_clocks / row.per)), left, right);
    axis_x(svg, x, bottom, 0, left, right, unit);
    rows.forEach((row, i) => {
      const y = i * h, end = row.way.predicted_clocks / row.per;
      put(svg, "svg:text", { x: left - 8, y: y + 19, "text-anchor": "end" }, row.name);
      let from = 0;
      for (const [use, clocks] of row.uses) {
        const [colour, opacity] = kUseStyles[use], to = from + clocks / row.per;
        mark(put(svg, "svg:rect", { x: x(from), y: y + 4, width: Math.max(0.5, x(to) - x(from)), height: h - 8,
          fill: css(colour), "fill-opacity": opacity }), () =>
          `${row.name}: ${use}\n${kUseTexts[use]}\n${short(clocks, 3)} of ${short(row.way.predicted_clocks)} clocks, ` +
          `${short((100 * clocks) / row.way.predicted_clocks, 2)} %`);
        from = to;
      }
      const least = x(row.least[1] / row.per);
      put(svg, "svg:line", { x1: least, x2: least, y1: y + 1, y2: y + h - 1, stroke: css("--ink"), "stroke-width": 2, "pointer-events": "none" });
      put(svg, "svg:text", { x: x(end) + 6, y: y + 19, class: "value" }, short(end, 3));
    });
    size(svg, width, bottom + 40);
  }, "What the clocks of each hot loop go to");
  if (t.missing) return;
  const used = new Set(rows.flatMap((row) => row.uses.map(([use]) => use)));
  legend(node, [...Object.entries(kUseStyles).filter(([use]) => used.has(use)).map(([use, [colour, opacity]]) =>
    [swatch(css(colour), { "fill-opacity": opacity }), use]), [stroke(css("--ink")), "at least"]]);
  loop_table(node, rows);
}

function loop_table(node, rows) {
  const run = (one) => (one.length > 0 ? `${one.length} at ${hex(one.address)}` : "-");
  const key = (one) => one.length;
  const columns = rows.some(({ way }) => way.notes.length) ? 10 : 9;  // without the notes if there are none
  put(node, "p", { class: "hint" }, "Loops of a kernel are numbered by address. Ways are the branches of a loop, its " +
    "evaluators for example; each is played alone. A run is the longest series of special functions, or of multiply-adds, " +
    "products and sums, with at most one other instruction between two of them, and the address where it begins: while one warp is in it, " +
    "only another warp can use the other units. Warps are those of one scheduler that multiply.");
  add_table(node, "timing table", [{ name: "loop" }, { name: "addresses" }, { name: "warps", number: true },
    { name: "instructions", number: true, show: count }, { name: "clocks", number: true, show: (v) => short(v) },
    { name: "per score", number: true, show: (v) => (v === null ? "-" : short(v, 3)) }, { name: "at least" },
    { name: "special run", show: run, key }, { name: "fma run", show: run, key }, { name: "notes", wide: true }].slice(0, columns),
    rows.map(({ loop, way, name, least }) => [name, `${hex(loop.first_address)} to ${hex(loop.last_address)}`, loop.warps_per_scheduler,
      way.instructions, way.predicted_clocks, way.scores > 0 ? way.predicted_clocks / way.scores : null,
      `${short(least[1])} ${least[0]}`, way.longest_special_run, way.longest_fma_run, way.notes.join("; ")].slice(0, columns)));
}

// ---- timeline

// By kind: colour, opacity, and whether it is a wait, which is drawn thin.
const kSpanStyles = [["--c-sky", 0.9], ["--c-blue", 1], ["--c-purple", 0.6, true], ["--wait", 1, true], ["--c-red", 0.55, true],
  ["--c-yellow", 0.6, true], ["--c-green", 0.6, true], ["--c-red", 0.85], ["--c-green", 0.9], ["--hold", 1]];

function timeline(problem) {
  const t = problem.timeline;
  const node = section("timeline", "Pipeline timeline", t.missing ? [] : ["counted", "estimated"],
    "One block, from its first instruction on: what each role does and what it waits for. Order, instructions and " +
    "barriers are the virtual device's; lengths are the model's rates for one block alone on its SM. Thin bars are " +
    "waits: consumers that wait for data say that loads come late, for products that the tensor cores are full; a " +
    "producer should wait for room.");
  if (t.missing) { add_chart(node, "timeline", t, 0); return; }
  if (t.kernels.length === 0) {
    add_chart(node, "timeline", { missing: "No kernel of this problem has tiles in shared memory." }, 0);
    return;
  }
  for (const kernel of t.kernels) one_timeline(node, t, kernel);
  put(node, "p", { class: "hint" }, `An instruction of PTX counts as ${short(t.machine_instructions, 2)} of an issue slot: machine ` +
    "instructions over PTX's, by the cost model's figures.");
  const used = new Set(t.kernels.flatMap((kernel) => kernel.spans.map((span) => span[1])));
  legend(node, t.kinds.map((name, i) => [swatch(css(kSpanStyles[i][0]), { "fill-opacity": kSpanStyles[i][1] }), name])
    .filter((_, i) => used.has(i)));
}

// What each role does with its time.
function lane_shares(parent, t, kernel) {
  const roles = kernel.lanes.map((lane) => lane.name.replace(/ \d+$/, (n) => (lane.role === "warp" ? "s" : n)));
  const clocks = new Map();
  for (const [lane, kind, begin, end] of kernel.spans) {
    if (kernel.lanes[lane].role === "memory") continue;
    const of_role = clocks.get(roles[lane]) || new Map();
    of_role.set(kind, (of_role.get(kind) || 0) + end - begin);
    clocks.set(roles[lane], of_role);
  }
  const lines = [...clocks].map(([role, of_role]) => {
    const all = kernel.clocks * roles.filter((name) => name === role).length;
    const shares = [...of_role].sort((a, b) => b[1] - a[1]).filter(([, c]) => c >= 0.005 * all)
      .map(([kind, c]) => `${Math.round((100 * c) / all)} % ${t.kinds[kind]}`);
    return `${role}: ${shares.join(", ")}`;
  });
  put(parent, "p", { class: "hint" }, `Of all clocks, ${lines.join("; ")}.`);
}

function one_timeline(parent, t, kernel) {
  const us = (clocks) => clocks / t.clock_ghz / 1e3;
  put(parent, "h3", {}, `${kernel.kernel}: ${count(kernel.clocks)} clocks, ${short(us(kernel.clocks), 3)} us` +
    `${kernel.is_cut ? " (its beginning)" : ""}; ${t.sizes.seq_q} queries, ${t.sizes.seq_k} keys, one head`);
  lane_shares(parent, t, kernel);
  const controls = put(parent, "div", { class: "controls" });
  const view = { from: 0, to: kernel.clocks };
  let chart = null;
  const show = (from, to) => {
    const span = Math.min(kernel.clocks, Math.max(200, to - from));
    view.from = Math.max(0, Math.min(from, kernel.clocks - span));
    view.to = view.from + span;
    chart.redraw();
  };
  const zoom = (factor) => {
    const middle = (view.from + view.to) / 2, half = ((view.to - view.from) * factor) / 2;
    show(middle - half, middle + half);
  };
  const pan = (share) => { const by = (view.to - view.from) * share; show(view.from + by, view.to + by); };
  const group = put(controls, "span", { class: "group", role: "group", "aria-label": "Part of the timeline that is shown" });
  for (const [name, label, act] of [["-", "show more", () => zoom(2)], ["+", "show less", () => zoom(0.5)],
    ["\u2190", "earlier", () => pan(-0.4)], ["\u2192", "later", () => pan(0.4)], ["all", "the whole timeline", () => show(0, kernel.clocks)]])
    put(group, "button", { type: "button", "aria-label": label }, name).addEventListener("click", act);
  const draw = (svg, width, mark) => {
    const h = 25, left = width < 500 ? 84 : 104, right = width - 4, bottom = kernel.lanes.length * h + 6;
    const x = linear(view.from, view.to, left, right);
    axis_x(svg, x, bottom, 0, left, right, `clocks of the SM (${short(us(1000), 3)} us per 1000)`);
    kernel.lanes.forEach((lane, i) =>
      put(svg, "svg:text", { x: left - 8, y: i * h + 17, "text-anchor": "end", class: lane.role === "warp" ? "strong" : "" }, lane.name));
    for (const [lane, kind, begin, end, label, amount, special] of kernel.spans) {
      const a = Math.max(begin, view.from), b = Math.min(end, view.to);
      const seen = b > a, [colour, opacity, thin] = kSpanStyles[kind];
      const node = put(svg, "svg:rect", { x: seen ? x(a).toFixed(1) : 0, y: lane * h + (thin ? 9 : 3),
        width: seen ? Math.max(0.4, x(b) - x(a)).toFixed(1) : 0, height: thin ? h - 18 : h - 6,
        fill: css(colour), "fill-opacity": opacity });
      mark(node, () => {
        const lines = [`${kernel.lanes[lane].name}: ${t.kinds[kind]}`, kernel.labels[label],
          `${count(begin)} to ${count(end)}: ${count(end - begin)} clocks, ${short(us(end - begin), 3)} us`];
        if (kind < 2) lines.push(`${count(amount)} instructions of a warp, ${count(special)} special functions`);
        if (t.kinds[kind] === "matrix product") lines.push(`${count(amount * 1024)} FLOP`);
        return lines.join("\n");
      });
    }
    size(svg, width, bottom + 40);
  };
  chart = add_chart(parent, `timeline ${kernel.kernel}`, kernel, kernel.spans.length, draw,
    `Timeline of a block of ${kernel.kernel}`);
}
