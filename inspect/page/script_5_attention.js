// The page of trained models: where their attention looks, and how that changes with the length.

const percent = (value) => `${short(100 * value, 3)} %`;
const kFigures = [
  { key: "entropy", name: "entropy", axis: "entropy in nats", show: (v) => short(v, 3) },
  { key: "live", name: "live weights", axis: "live weights, % of the keys", show: percent, scale: 100 },
  { key: "first", name: "weight of the first token", axis: "weight of the first token, %", show: percent, scale: 100 },
];
const [kEntropy, kLive, kFirst] = kFigures;
const last = (list) => list[list.length - 1];
const average = (list) => list.reduce((sum, v) => sum + v, 0) / list.length;

// The mean over all heads at every length.
const means = (model, figure) => model.points.map((point) => average(point[figure.key].flat()));

// Nats of entropy for a nat of log N, by least squares; null with one length.
function growth(model, entropies) {
  const x = model.points.map((point) => point.uniform), mx = average(x), my = average(entropies);
  const spread = x.reduce((sum, v) => sum + (v - mx) ** 2, 0);
  return spread > 0 ? x.reduce((sum, v, i) => sum + (v - mx) * (entropies[i] - my), 0) / spread : null;
}

function model_overview(model) {
  const node = section("overview", `Model ${model.name}`, [], "");
  const figures = put(node, "div", { class: "figures" });
  const figure = (value, what) => {
    const box = put(figures, "div", { class: "figure" });
    put(box, "b", {}, value);
    put(box, "span", {}, what);
  };
  const from = model.points[0], to = last(model.points);
  const entropies = means(model, kEntropy), slope = growth(model, entropies);
  if (from.loss !== undefined && to.loss !== undefined)
    figure(`${from.loss.toFixed(2)} \u2192 ${to.loss.toFixed(2)}`, `loss at ${from.length} and ${to.length} tokens, nats`);
  if (slope !== null) figure(short(slope, 2), "nats of entropy for a nat of log N");
  figure(`${short(Math.exp(last(entropies)), 3)} of ${short(to.keys, 4)}`, `keys, by exp(entropy), at ${to.length} tokens`);
  figure(percent(last(means(model, kLive))), `live weights at ${to.length} tokens`);
  figure(percent(last(means(model, kFirst))), `on the first token at ${to.length} tokens`);
  const facts = put(node, "dl", { class: "facts" });
  const seen = `the last ${model.queries === 1 ? "query" : `${count(model.queries)} queries`} of ${plural(model.documents, "document")}, ` +
    `the same at every length: windows of ${count(from.length)} to ${count(to.length)} tokens end with them`;
  for (const [name, value] of [["Attention", model.attention], ["Model", model.model],
    ["Positions", model.rope === "none" ? "as in training" : `stretched by ${model.rope} beyond ${model.trained} tokens`],
    ["Looked at", seen]]) {
    put(facts, "dt", {}, name);
    put(facts, "dd", {}, value);
  }
}

// Lines of one figure over the length. lines: {name, colour, values, bold}, a value for each point.
function lines_over_length(parent, name, points, figure, lines, height) {
  const scale = figure.scale || 1, has_uniform = figure === kEntropy;
  const most = lines.flatMap((line) => line.values).concat(has_uniform ? points.map((point) => point.uniform) : [1e-6])
    .reduce((a, b) => Math.max(a, b));
  add_chart(parent, name, {}, lines.length * points.length, (svg, width, mark) => {
    const left = 44, right = width - 10, top = 24, bottom = height - 44;
    size(svg, width, height);
    const lengths = points.map((point) => point.length);
    const x = log(lengths[0] / 1.1, last(lengths) * 1.1, left, right);
    x.ticks = lengths;
    const y = linear(0, most * scale * 1.05, bottom, top, 40);
    axis_y(svg, y, left, right, figure.axis);
    axis_x(svg, x, bottom, top, left, right, "tokens");
    const path = (values, attributes) => put(svg, "svg:path", { fill: "none", ...attributes,
      d: values.map((v, i) => `${i ? "L" : "M"}${x(lengths[i]).toFixed(1)},${y(v * scale).toFixed(1)}`).join("") });
    if (has_uniform) path(points.map((point) => point.uniform), { stroke: css("--faint"), "stroke-dasharray": "6 4", "stroke-width": 1.5 });
    for (const line of lines) path(line.values, { stroke: line.colour, "stroke-width": line.bold ? 2.6 : 1.2 });
    for (const line of lines)
      line.values.forEach((value, i) => mark(put(svg, "svg:circle", { cx: x(lengths[i]), cy: y(value * scale), r: line.bold ? 4.5 : 3, fill: line.colour }), () =>
        `${line.name}\n${figure.name} ${figure.show(value)} at ${count(lengths[i])} tokens` + (has_uniform
          ? `\nas ${short(Math.exp(value), 3)} keys of equal weight, of ${short(points[i].keys, 4)}` : "")));
  }, `${figure.axis}, over the length`);
}

// Entropy, live weights and the first token over the length; lines_of(figure) gives the lines.
function figures_over_length(node, name, model, lines_of, legend_items) {
  lines_over_length(node, `${name} entropy`, model.points, kEntropy, lines_of(kEntropy), 300);
  legend(node, [...legend_items, [stroke(css("--faint"), "6 4"), "log N: all keys have equal weights"]]);
  const columns = put(node, "div", { class: "columns" });
  for (const figure of [kLive, kFirst])
    lines_over_length(put(columns, "div"), `${name} ${figure.key}`, model.points, figure, lines_of(figure), 230);
}

function all_models(model) {
  if (data.models.length === 1) return;
  const node = section("models", "All models", [],
    "Means over all layers and heads. The entropy of a query's weights w is -\u2211 w log w: 0 if one key has everything, " +
    "log N if all N keys have equal weights. A flat line is a scale that keeps the entropy at any length.");
  const same = data.models.filter((one) => same_lengths(one, model));
  const colour = (one) => css(kLineColours[data.models.indexOf(one) % kLineColours.length]);
  figures_over_length(node, "models", model, (figure) => same.map((one) => ({ name: one.name, values: means(one, figure),
    colour: colour(one), bold: one === model })), same.map((one) => [stroke(colour(one)), one.name]));
  if (same.length < data.models.length)
    put(node, "p", { class: "hint" }, `Not here: ${plural(data.models.length - same.length, "model")} with other lengths.`);
  const [from, to] = [model.points[0], last(model.points)].map((point) => count(point.length));
  const number = (name, show) => ({ name, number: true, show: (v) => (v === null ? "-" : show(v)) });
  add_table(node, "models table", [{ name: "model" }, number(`loss at ${from}`, (v) => v.toFixed(3)), number(`at ${to}`, (v) => v.toFixed(3)),
    number(`entropy at ${from}`, kEntropy.show), number(`at ${to}`, kEntropy.show), number("per nat of log N", (v) => short(v, 2)),
    number(`live at ${to}`, percent), number(`first token at ${to}`, percent)],
  same.map((one) => {
    const entropies = means(one, kEntropy);
    return [one.name, one.points[0].loss ?? null, last(one.points).loss ?? null, entropies[0], last(entropies), growth(one, entropies),
      last(means(one, kLive)), last(means(one, kFirst))];
  }));
}

const same_lengths = (one, other) => one.points.length === other.points.length &&
  one.points.every((point, i) => point.length === other.points[i].length);

// Layers have a colour each: of few ones those of the page, of many a part of the heat colours.
const layer_colour = (model, layer) => (model.layers <= kLineColours.length ? css(kLineColours[layer])
  : heat((0.85 * layer) / (model.layers - 1)));
const all_heads = (model) => Array.from({ length: model.layers * model.heads }, (_, i) =>
  [Math.floor(i / model.heads), i % model.heads]);
const head_name = (layer, head) => `layer ${layer + 1}, head ${head + 1}`;

function heads_by_length(model) {
  const node = section("heads", "Heads over the length", [],
    "A line for each head, coloured by its layer. Live are the keys whose weight is at least 2\u207b\u00b2\u2074 of the query's " +
    "largest: in float32 the others add nothing. Heads often leave weight that they have no use for on the first token.");
  const shown = [...new Set(model.layers <= 8 ? Array(model.layers).keys() : [0, model.layers >> 1, model.layers - 1])];
  figures_over_length(node, "heads", model, (figure) => all_heads(model).map(([layer, head]) => ({ name: head_name(layer, head),
    values: model.points.map((point) => point[figure.key][layer][head]), colour: layer_colour(model, layer) })),
  shown.map((layer) => [stroke(layer_colour(model, layer)), `layer ${layer + 1}`]));
}

// ---- layers and heads

function heads_of_layers(model) {
  const node = section("layers", "Layers and heads", [], "A cell for each head, with its figure at the " +
    "chosen length. Colours go from 0, dark, to the most there can be, bright: log N for the entropy, all for the others.");
  const state = { figure: 1, point: model.points.length - 1 };
  const controls = put(node, "div", { class: "controls" });
  const chart = add_chart(node, "layers", {}, model.layers * model.heads, (svg, width, mark) => {
    const point = model.points[state.point], figure = kFigures[state.figure], values = point[figure.key];
    const left = 58, top = 18, h = 30, w = Math.min(110, (width - left) / model.heads);
    const most = figure === kEntropy ? point.uniform : 1;
    size(svg, width, top + model.layers * h + 4);
    for (let head = 0; head < model.heads; head += Math.ceil(26 / w))
      put(svg, "svg:text", { x: left + (head + 0.5) * w, y: 12, "text-anchor": "middle" }, w > 50 ? `head ${head + 1}` : head + 1);
    for (const [layer, head] of all_heads(model)) {
      const value = values[layer][head], x = left + head * w, y = top + layer * h;
      if (head === 0) put(svg, "svg:text", { x: left - 8, y: y + 19, "text-anchor": "end" }, `layer ${layer + 1}`);
      mark(put(svg, "svg:rect", { x, y, width: w - 1.5, height: h - 1.5, rx: 2, fill: heat(value / most) }), () =>
        `${head_name(layer, head)}\n${kFigures.map((one) => `${one.name} ${one.show(point[one.key][layer][head])}`).join("\n")}\nat ${count(point.length)} tokens`);
      if (w >= 48)
        put(svg, "svg:text", { x: x + w / 2, y: y + 19, "text-anchor": "middle", "pointer-events": "none",
          style: `fill:${value / most > 0.6 ? "#000" : "#fff"}` }, figure.show(value));
    }
  }, "A figure of each head, by layer");
  choices(controls, "Figure", kFigures.map((figure) => figure.name), state.figure, (i) => { state.figure = i; chart.redraw(); });
  selection(controls, "Tokens", model.points.map((point) => count(point.length)), state.point, (i) => { state.point = i; chart.redraw(); });
  const ends = [...new Set([model.points[0], last(model.points)])];
  add_table(node, "heads table", [{ name: "layer", number: true }, { name: "head", number: true },
    ...ends.map((point) => ({ name: `entropy at ${count(point.length)}`, number: true, show: kEntropy.show })),
    { name: "per nat of log N", number: true, show: (v) => (v === null ? "-" : short(v, 2)) },
    ...[kLive, kFirst].map((figure) => ({ name: `${figure.key} at ${count(last(ends).length)}`, number: true, show: percent }))],
  all_heads(model).map(([layer, head]) => {
    const entropies = model.points.map((point) => point.entropy[layer][head]);
    return [layer + 1, head + 1, ...ends.map((point) => point.entropy[layer][head]), growth(model, entropies), ...[kLive, kFirst].map((figure) => last(model.points)[figure.key][layer][head])];
  }), { tall: model.layers * model.heads > 16 });
}

// ---- maps

const weight_colour = (weight) => heat(1 + Math.log10(Math.max(weight, 1e-4)) / 4);

// A map as a picture of one pixel per cell.
function paint(canvas, rows) {
  canvas.width = canvas.height = rows.length;
  const context = canvas.getContext("2d");
  rows.forEach((row, y) => row.forEach((weight, x) => {
    if (weight === 0) return;
    context.fillStyle = weight_colour(weight);
    context.fillRect(x, y, 1, 1);
  }));
}

function attention_maps(model) {
  const node = section("maps", "Maps", [],
    "One document: what weight each query (down) gives to each key (across). Bright is much, by the logarithm. Choose a head for " +
    "its large map.");
  if (model.maps.length === 0) {
    add_chart(node, "map", { missing: "The file has no maps of this model." }, 0);
    return;
  }
  const state = { map: model.maps.length - 1, layer: 0, head: 0 };
  const controls = put(node, "div", { class: "controls" });
  const parts = put(node, "div", { class: "beside" });
  const thumbs = put(put(parts, "div", { class: "scroll", tabindex: "0" }), "div", { class: "thumbs" });
  const large = put(parts, "div", { class: "large" });
  thumbs.style.setProperty("--heads", model.heads);
  thumbs.style.setProperty("--side", `${Math.max(32, Math.min(110, Math.floor(840 / model.heads)))}px`);
  const rows = () => model.maps[state.map].layers[state.layer][state.head];
  const cells = () => rows().flat().filter((weight) => weight > 0).length;
  const title = put(large, "h3"), about = put(large, "p", { class: "hint" });
  const chart = add_chart(large, "map", {}, cells(), (svg, width, mark) => draw_map(svg, width, mark, model.maps[state.map], rows()),
    "Weights of one head: queries down, keys across");
  const buttons = add_thumbs(thumbs, model, (layer, head) => { Object.assign(state, { layer, head }); update(); });
  const update = () => {
    const map = model.maps[state.map], side = map.length / map.cells;
    title.textContent = `${head_name(state.layer, state.head)}, ${count(map.length)} tokens`;
    about.textContent = side === 1 ? "" : `A cell is ${short(side, 3)} queries by ${short(side, 3)} keys: the keys' weight together, mean over the queries.`;
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", i === state.layer * model.heads + state.head);
      paint(button.firstChild, map.layers[Math.floor(i / model.heads)][i % model.heads]);
    });
    chart.redraw(cells());
  };
  choices(controls, "Tokens", model.maps.map((map) => count(map.length)), state.map, (i) => { state.map = i; update(); });
  legend(node, [...[1, 0.1, 0.01, 0.001, 0.0001].map((weight) => [swatch(weight_colour(weight)), weight === 0.0001 ? "0.0001 and less" : String(weight)]),
    [swatch("none", { stroke: css("--line") }), "less than 0.00001"]]);
  update();
}

// A small picture of every head; returns their buttons.
function add_thumbs(parent, model, on_choice) {
  put(parent, "span");
  for (let head = 0; head < model.heads; ++head) put(parent, "span", { style: "text-align:center" }, model.heads > 8 ? head + 1 : `head ${head + 1}`);
  const buttons = all_heads(model).map(([layer, head]) => {
    if (head === 0) put(parent, "span", {}, `layer ${layer + 1}`);
    const button = put(parent, "button", { type: "button", "aria-label": head_name(layer, head), "aria-pressed": false });
    put(button, "canvas");
    button.addEventListener("click", () => on_choice(layer, head));
    return button;
  });
  charts.set("thumbs", { name: "thumbs", marks: model.layers * model.heads, drawn: buttons.length });
  return buttons;
}

function draw_map(svg, width, mark, map, rows) {
  const left = 44, top = 8, side = Math.min(width - left - 8, 620), step = side / map.cells;
  size(svg, width, top + side + 44);
  const x = linear(0, map.length, left, left + side), y = linear(0, map.length, top, top + side);
  axis_x(svg, x, top + side, top, left, left + side, "key");
  for (const t of y.ticks) put(svg, "svg:text", { x: left - 6, y: y(t) + 4, "text-anchor": "end" }, short(t));
  put(svg, "svg:text", { x: 12, y: top + side / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${top + side / 2})` }, "query");
  const edge = (cell) => Math.ceil((cell * map.length) / map.cells);
  const span = (cell) => (edge(cell + 1) - 1 > edge(cell) ? `${edge(cell)} to ${edge(cell + 1) - 1}` : String(edge(cell)));
  rows.forEach((row, i) => row.forEach((weight, j) => {
    if (weight === 0) return;
    mark(put(svg, "svg:rect", { x: (left + j * step).toFixed(2), y: (top + i * step).toFixed(2), width: step.toFixed(2), height: step.toFixed(2),
      fill: weight_colour(weight), "shape-rendering": "crispEdges" }), () => `weight ${short(weight)}\nquery ${span(i)}\nkey ${span(j)}`);
  }));
}
