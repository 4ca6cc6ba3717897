// The page: theme, choice of a problem or of a model, and its sections in order.

const page = document.getElementById("page");
const contents = document.getElementById("contents");

// ---- theme: #light and #dark choose it, too

const system_dark = matchMedia("(prefers-color-scheme: dark)");
const themes = ["system", "light", "dark"];
let theme = ["light", "dark"].find((name) => location.hash === `#${name}`) || "system";
const theme_button = document.getElementById("theme");
function apply_theme() {
  const dark = theme === "dark" || (theme === "system" && system_dark.matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  theme_button.textContent = `Colours: ${theme}`;
}
theme_button.addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  apply_theme();
});
system_dark.addEventListener("change", apply_theme);
apply_theme();

// ---- what the page is about

function overview(problem) {
  const node = section("overview", "Overview", [], "");
  const figures = put(node, "div", { class: "figures" });
  const figure = (value, what, tag) => {
    const box = put(figures, "div", { class: "figure" });
    put(box, "b", {}, value);
    put(box, "span", {}, `${what} `);
    if (tag) put(box, "span", { class: `tag ${tag}` }, tag);
  };
  // One time: the best evidence there is. The sentences below name both, and why they differ.
  const has_record = problem.ms > 0;
  figure(`${short(has_record ? problem.ms : problem.estimate.ms)} ms`, "time", has_record ? problem.evidence : "estimated");
  figure(problem.estimate.limit, "largest resource", "estimated");
  figure(count(problem.candidates.total), problem.candidates.total === 1 ? "candidate" : "candidates");
  figure(problem.origin, "origin of the schedule");
  const list = put(node, "ul", { class: "summary" });
  for (const line of problem.summary) put(list, "li", {}, line);
  const facts = put(node, "dl", { class: "facts" });
  for (const [name, value, code] of [["Problem", problem.problem], ["Bucket", problem.name],
    ["Target", `${problem.target}; estimates for ${problem.model}; device ${problem.device}`],
    ["Schedule", problem.schedule, true], ["Against the default", problem.difference, true], ["Why it", problem.reason]]) {
    put(facts, "dt", {}, name);
    const dd = put(facts, "dd");
    if (code) put(dd, "code", {}, value); else dd.textContent = value;
  }
}

const kProblemParts = [overview, roofline, landscape, search_trace, resources, shared_memory, hot_loops, timeline, accuracy, comparison, candidates_table];
const kModelParts = [model_overview, all_models, heads_by_length, heads_of_layers, attention_maps];

// subject: a problem or a model.
function show(subject) {
  page.replaceChildren();
  contents.replaceChildren();
  charts.clear();
  redraws.length = 0;
  for (const part of data.models ? kModelParts : kProblemParts) part(subject);
  draw_all();
}

let last_width = 0;
function draw_all() {
  last_width = page.clientWidth;
  for (const redraw of redraws) redraw();
  note_charts();
  note_state();
}
new ResizeObserver(() => { if (page.clientWidth !== last_width) draw_all(); }).observe(page);

document.getElementById("title").textContent = data.title;
document.getElementById("note").textContent = data.note;
document.getElementById("command").textContent = data.command;
document.getElementById("evidence").hidden = Boolean(data.models);
const subjects = data.models || data.problems;
if (subjects.length > 1) {
  const chooser = document.getElementById("chooser");
  chooser.hidden = false;
  selection(chooser, data.models ? "Model" : "Problem", subjects.map((one) => (data.models ? one.name
    : `${one.name}, ${one.target} ${one.device}`)), 0, (i) => show(subjects[i]));
}
show(subjects[0]);
