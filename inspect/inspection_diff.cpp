#include "inspect/inspection_diff.h"

#include <algorithm>

#include <fmt/format.h>

#include "device/counters_text.h"
#include "inspect/run_program.h"

namespace lssar {
namespace {

// One row of a table of figures. A negative figure is unknown.
struct Row {
  std::string name;
  double a = -1, b = -1;
};

std::string figure(double value) { return value < 0 ? "?" : fmt::format("{:.12g}", value); }

std::string table(const std::string& title, const std::string& a, const std::string& b,
                  const std::vector<Row>& rows) {
  size_t width = title.size();
  for (const Row& row : rows) width = std::max(width, row.name.size() + 2);
  std::string text = fmt::format("\n{:<{}}  {:>16} {:>16} {:>16}\n", title, width, a.substr(0, 16),
                                 b.substr(0, 16), "difference");
  for (const Row& row : rows) {
    const bool is_known = row.a >= 0 && row.b >= 0;
    text += fmt::format("  {:<{}} {:>16} {:>16} {:>16}\n", row.name, width - 1, figure(row.a),
                        figure(row.b),
                        !is_known        ? "?"
                        : row.a == row.b ? "="
                                         : fmt::format("{:+.12g}", row.b - row.a));
  }
  return text;
}

template <typename T, typename Name>
const T* named(const std::vector<T>& list, const std::string& wanted, const Name& name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const T& one) { return name(one) == wanted; });
  return found == list.end() ? nullptr : &*found;
}

// The names in either list: those of `a` in order, then those only in `b`.
template <typename T, typename Name>
std::vector<std::string> all_names(const std::vector<T>& a, const std::vector<T>& b,
                                   const Name& name) {
  std::vector<std::string> names;
  for (const auto* list : {&a, &b})
    for (const T& one : *list)
      if (std::find(names.begin(), names.end(), name(one)) == names.end())
        names.push_back(name(one));
  return names;
}

std::string resources(const DiffSide& a, const DiffSide& b) {
  const auto name = [](const StepFacts& one) { return one.step.entry; };
  const auto& steps_a = a.inspection.facts.steps;
  const auto& steps_b = b.inspection.facts.steps;
  std::string text;
  for (const std::string& entry : all_names(steps_a, steps_b, name)) {
    const StepFacts *left = named(steps_a, entry, name), *right = named(steps_b, entry, name);
    std::vector<Row> rows;
    const auto add = [&](const char* what, const auto& of) {
      rows.push_back({what, left == nullptr ? -1 : double(of(*left)),
                      right == nullptr ? -1 : double(of(*right))});
    };
    add("threads", [](const StepFacts& one) { return one.step.threads; });
    add("registers", [](const StepFacts& one) { return one.resources.registers; });
    add("spilt bytes", [](const StepFacts& one) {
      return one.resources.spill_store_bytes < 0
                 ? -1
                 : one.resources.spill_store_bytes + one.resources.spill_load_bytes;
    });
    add("shared bytes", [](const StepFacts& one) {
      return one.step.shared_bytes + std::max(0, one.resources.shared_bytes);
    });
    add("blocks per SM", [](const StepFacts& one) { return one.occupancy.blocks; });
    text += table(entry, a.name, b.name, rows);
  }
  return text;
}

std::string machine_code(const DiffSide& a, const DiffSide& b) {
  const auto name = [](const SassKernel& one) { return one.name; };
  std::string text;
  for (const std::string& entry : all_names(a.inspection.kernels, b.inspection.kernels, name)) {
    const SassKernel* const left = named(a.inspection.kernels, entry, name);
    const SassKernel* const right = named(b.inspection.kernels, entry, name);
    const SassCounts none = {};
    const SassCounts counts_a = left == nullptr ? none : left->counts();
    const SassCounts counts_b = right == nullptr ? none : right->counts();
    std::vector<Row> rows;
    for (int i = 0; i < kNumSassClasses; ++i) {
      if (counts_a[size_t(i)] + counts_b[size_t(i)] == 0) continue;
      rows.push_back({sass_class_name(static_cast<SassClass>(i)),
                      left == nullptr ? -1 : double(counts_a[size_t(i)]),
                      right == nullptr ? -1 : double(counts_b[size_t(i)])});
    }
    text += table(entry + ", machine code", a.name, b.name, rows);
  }
  return text;
}

std::string counted(const DiffSide& a, const DiffSide& b) {
  const auto name = [](const CountedKernel& one) { return one.counters.kernel; };
  std::string text;
  for (const std::string& entry : all_names(a.inspection.counted, b.inspection.counted, name)) {
    const CountedKernel* const left = named(a.inspection.counted, entry, name);
    const CountedKernel* const right = named(b.inspection.counted, entry, name);
    std::vector<Row> rows;
    const auto add = [&](const std::string& what, const auto& of) {
      rows.push_back({what, left == nullptr ? -1 : double(of(left->counters.counters)),
                      right == nullptr ? -1 : double(of(right->counters.counters))});
    };
    add("warp instructions", [](const LaunchCounters& c) { return c.warp_instructions; });
    for (int i = 0; i < kNumInstructionClasses; ++i) {
      const auto c = static_cast<InstructionClass>(i);
      add(to_string(c), [&](const LaunchCounters& counters) { return counters.of(c).warps; });
    }
    add("bank conflicts", [](const LaunchCounters& c) {
      uint64_t lost = 0;
      for (const SharedTraffic& traffic : c.shared) lost += traffic.lost();
      return lost;
    });
    text += table(entry + ", counted", a.name, b.name, rows);
  }
  return text;
}

}  // namespace

Result<std::string> source_diff(const DiffSide& a, const DiffSide& b) {
  LSSAR_ASSIGN_OR_RETURN(
      const TemporaryFile left,
      TemporaryFile::create("a.cu", source_without_header(a.inspection.facts.source.source)));
  LSSAR_ASSIGN_OR_RETURN(
      const TemporaryFile right,
      TemporaryFile::create("b.cu", source_without_header(b.inspection.facts.source.source)));
  LSSAR_ASSIGN_OR_RETURN(
      ProgramResult result,
      run_program({"diff", "-u", "--label", a.name, "--label", b.name, left.path(), right.path()}));
  if (result.exit_code > 1) {
    return io_error(fmt::format("diff ended with {}: {}", result.exit_code, result.err));
  }
  return std::move(result.out);
}

Result<std::string> diff_text(const DiffSide& a, const DiffSide& b) {
  LSSAR_ASSIGN_OR_RETURN(std::string text, source_diff(a, b));
  if (text.empty()) text = "the sources are the same, header comments aside\n";
  text += resources(a, b) + machine_code(a, b) + counted(a, b);
  for (const DiffSide* side : {&a, &b})
    for (const std::string& problem : side->inspection.problems)
      text += fmt::format("\n{}: {}\n", side->name, problem);
  return text;
}

}  // namespace lssar
