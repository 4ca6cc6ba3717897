// The parts of every chart: elements, scales, axes, the tooltip, sorted tables. Each chart says how
// many marks its data needs; the page's test compares that with what was drawn.

const data = JSON.parse(document.getElementById("data").textContent);
const errors = [];
window.addEventListener("error", (event) => { errors.push(event.message); note_state(); });

function note_state() {
  document.body.dataset.errors = JSON.stringify(errors);
  const { scrollWidth, clientWidth } = document.documentElement;
  document.body.dataset.width = clientWidth;
  document.body.dataset.overflow = scrollWidth - clientWidth;
  const cut = [...document.querySelectorAll(".scroll")].filter((box) => box.scrollWidth > box.clientWidth);
  document.body.dataset.cut = cut.length;
  document.body.dataset.height = document.documentElement.scrollHeight;
  document.body.dataset.figures = JSON.stringify([...document.querySelectorAll(".figure")].map((one) => one.innerText.replaceAll("\n", ": ")));
}

// ---- elements

function put(parent, name, attributes, text) {
  const node = name.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4))
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

function short(value, digits = 4) {
  if (value === null || value === undefined || !isFinite(value)) return "-";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-3) return value.toExponential(Math.min(digits - 1, 2)).replace("e+", "e");
  return String(Number(value.toPrecision(digits)));
}

function count(value) { return Number(value).toLocaleString("en-US"); }
function bytes(value) { return value >= 1024 ? `${short(value / 1024)} KiB` : `${value} bytes`; }
function plural(n, word) { return `${count(n)} ${word}${n === 1 ? "" : "s"}`; }

// Text with `code` in it.
function with_code(node, text) {
  text.split("`").forEach((part, i) => (i % 2 ? put(node, "code", {}, part) : node.append(part)));
  return node;
}

// ---- sections and charts

function section(id, title, tags, hint) {
  const node = put(page, "section", { id });
  const head = put(node, "div", { class: "head" });
  put(head, "h2", {}, title);
  for (const tag of tags) put(head, "span", { class: `tag ${tag}` }, tag);
  if (hint) put(node, "p", { class: "hint" }, hint);
  put(contents, "a", { href: `#${id}` }, title);
  return node;
}

// Calls draw(svg, width, mark) now and whenever the chart's width changes. `marks` is the number of
// marks that the data needs. A chart without data shows why.
const charts = new Map();
function add_chart(parent, name, chart_data, marks, draw, label) {
  const state = { name, marks, drawn: 0, missing: chart_data && chart_data.missing };
  charts.set(name, state);
  if (state.missing) {
    with_code(put(parent, "p", { class: "missing" }), state.missing);
    return { redraw() {} };
  }
  const svg = put(parent, "svg:svg", { class: "chart", tabindex: "0", role: "img", "aria-label": label });
  const redraw = (new_marks) => {
    if (new_marks !== undefined) state.marks = new_marks;
    svg.replaceChildren();
    draw(svg, Math.max(260, svg.getBoundingClientRect().width), (node, tip) => {
      node.classList.add("mark");
      node.tip = tip;
      return node;
    });
    state.drawn = svg.querySelectorAll(".mark").length;
    note_charts();
  };
  redraws.push(redraw);
  return { redraw, svg };
}
const redraws = [];

function note_charts() {
  document.body.dataset.charts = JSON.stringify([...charts.values()]);
}

function size(svg, width, height) {
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
}

// ---- scales and axes

// gap: pixels between ticks, at least.
function linear(from, to, begin, end, gap = 80) {
  const scale = (v) => begin + ((v - from) / (to - from || 1)) * (end - begin);
  const raw = (to - from || 1) / Math.max(2, Math.abs(end - begin) / gap);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
  scale.ticks = [];
  for (let t = Math.ceil(from / step) * step; t <= to * (1 + 1e-9); t += step)
    scale.ticks.push(Number(t.toPrecision(10)));
  return scale;
}

function log(from, to, begin, end) {
  const a = Math.log(from), b = Math.log(to);
  const scale = (v) => begin + ((Math.log(v) - a) / (b - a || 1)) * (end - begin);
  scale.ticks = [];
  const decades = (b - a) / Math.LN10;
  const steps = decades > 3 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  for (let p = Math.floor(Math.log10(from)); p <= Math.ceil(Math.log10(to)); ++p)
    for (const m of steps) {
      const t = m * 10 ** p;
      if (t >= from * 0.999 && t <= to * 1.001) scale.ticks.push(t);
    }
  if (scale.ticks.length < 4) scale.ticks = linear(from, to, begin, end).ticks;
  return scale;
}

function axis_x(svg, scale, y, top, left, right, title) {
  const g = put(svg, "svg:g");
  let last = -Infinity;
  for (const t of scale.ticks) {
    const x = scale(t);
    put(g, "svg:line", { class: "grid", x1: x, x2: x, y1: top, y2: y });
    if (x - last < 34) continue;
    last = x;
    put(g, "svg:text", { x, y: y + 16, "text-anchor": "middle" }, short(t, 6));
  }
  put(g, "svg:line", { class: "axis", x1: left, x2: right, y1: y, y2: y });
  put(g, "svg:text", { x: (left + right) / 2, y: y + 34, "text-anchor": "middle" }, title);
}

function axis_y(svg, scale, x, right, title) {
  const g = put(svg, "svg:g");
  let last = Infinity;
  for (const t of scale.ticks) {
    const y = scale(t);
    put(g, "svg:line", { class: "grid", x1: x, x2: right, y1: y, y2: y });
    if (Math.abs(last - y) < 15) continue;
    last = y;
    put(g, "svg:text", { x: x - 6, y: y + 4, "text-anchor": "end" }, short(t));
  }
  put(g, "svg:text", { x: 0, y: 11 }, title);
}

function legend(parent, items) {
  const row = put(parent, "div", { class: "legend" });
  for (const [draw, text] of items) {
    const span = put(row, "span");
    draw(put(span, "svg:svg", { width: 16, height: 12, "aria-hidden": "true" }));
    put(span, "span", {}, text);
  }
  return row;
}
const kLineColours = ["--c-red", "--c-blue", "--c-green", "--c-orange", "--c-purple", "--c-sky", "--c-grey"];
const swatch = (fill, more) => (svg) =>
  put(svg, "svg:rect", { x: 1, y: 1, width: 14, height: 10, rx: 2, fill, ...more });
const dot = (attributes) => (svg) => put(svg, "svg:circle", { cx: 8, cy: 6, r: 4, ...attributes });
const stroke = (colour, dash) => (svg) =>
  put(svg, "svg:line", { x1: 0, x2: 16, y1: 6, y2: 6, stroke: colour, "stroke-width": 2,
    "stroke-dasharray": dash || "none" });

// ---- the tooltip: hover, tap, or arrow keys in a focused chart

const tip = document.getElementById("tip");
let lit = null;
function show_tip(mark, x, y) {
  if (lit) lit.classList.remove("lit");
  lit = mark;
  if (!mark) { tip.hidden = true; return; }
  mark.classList.add("lit");
  const [first, ...rest] = mark.tip().split("\n");
  tip.replaceChildren();
  put(tip, "b", {}, first);
  tip.append(rest.join("\n"));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - box.width - 14 : x + 14;
  const top = y + 14 + box.height > innerHeight ? y - box.height - 10 : y + 14;
  tip.style.left = `${Math.max(6, Math.min(left, innerWidth - box.width - 6))}px`;
  tip.style.top = `${Math.max(6, top)}px`;
}
const mark_of = (event) => event.target.closest && event.target.closest(".mark");
document.addEventListener("pointermove", (e) => {
  const mark = mark_of(e);
  if (mark || e.pointerType === "mouse") show_tip(mark, e.clientX, e.clientY);
});
document.addEventListener("click", (e) => show_tip(mark_of(e), e.clientX, e.clientY));
document.addEventListener("focusout", () => show_tip(null));
document.addEventListener("scroll", () => show_tip(null), { passive: true });
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape") return show_tip(null);
  const svg = document.activeElement;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  if (!step || !svg.classList.contains("chart")) return;
  const marks = [...svg.querySelectorAll(".mark")];
  if (marks.length === 0) return;
  const now = marks.indexOf(lit);
  const next = marks[now < 0 ? 0 : (now + step + marks.length) % marks.length];
  const box = next.getBoundingClientRect();
  show_tip(next, box.left + box.width / 2, box.top + box.height / 2);
  e.preventDefault();
});

// ---- tables that sort by a click on their heads

// columns: {name, number, wide, show(value), key(value)}; rows: lists of values.
function add_table(parent, name, columns, rows, options = {}) {
  const state = { name, marks: rows.length, drawn: 0 };
  charts.set(name, state);
  const box = put(parent, "div", { class: options.tall ? "scroll tall" : "scroll", tabindex: "0" });
  const table = put(box, "table");
  const head = put(put(table, "thead"), "tr");
  const body = put(table, "tbody");
  const nodes = rows.map((row) => {
    const tr = put(body, "tr", options.row_class ? { class: options.row_class(row) } : {});
    columns.forEach((column, i) => {
      const kind = column.number ? "number" : column.wide ? "wide" : column.wraps ? "wraps" : "";
      put(tr, "td", kind ? { class: kind } : {}, column.show ? column.show(row[i]) : String(row[i] ?? ""));
    });
    return [row, tr];
  });
  columns.forEach((column, i) => {
    const th = put(head, "th", { scope: "col", ...(column.number ? { class: "number" } : {}) });
    put(th, "button", { type: "button" }, column.name).addEventListener("click", () => {
      const down = th.getAttribute("aria-sort") === "ascending";
      for (const other of head.children) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => (column.key ? column.key(row[i]) : row[i]);
      nodes.sort(([a], [b]) => {
        const x = key(a), y = key(b);
        const order = x === y ? 0 : x === null ? 1 : y === null ? -1 : x < y ? -1 : 1;
        return down ? -order : order;
      });
      body.append(...nodes.map(([, tr]) => tr));
    });
  });
  state.drawn = body.children.length;
  note_charts();
  return { nodes };
}

// A row of buttons, one of which is pressed.
function choices(parent, label, names, chosen, on_choice) {
  const box = put(parent, "span", {}, `${label} `);
  const group = put(box, "span", { class: "group", role: "group", "aria-label": label });
  names.forEach((name, i) => {
    const button = put(group, "button", { type: "button", "aria-pressed": i === chosen }, name);
    button.addEventListener("click", () => {
      for (const other of group.children) other.setAttribute("aria-pressed", other === button);
      on_choice(i);
    });
  });
}

function selection(parent, label, names, chosen, on_choice) {
  const select = put(put(parent, "label", {}, `${label} `), "select");
  names.forEach((name, i) => put(select, "option", { value: i }, name));
  select.value = chosen;
  select.addEventListener("change", () => on_choice(Number(select.value)));
  return select;
}
