#include "codegen/source_header.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "codegen/emit.h"
#include "codegen/emitted_file.h"
#include "codegen/launch_step.h"
#include "codegen/pass_needs.h"
#include "codegen/schedule_fields.h"
#include "codegen/score_source.h"
#include "codegen/shapes.h"
#include "codegen/shared_layout.h"
#include "codegen/source/expression_source.h"
#include "codegen/source/source_writer.h"

namespace lssar {
namespace {

constexpr const char* kHeaderEnd = "// ---- end of header\n";
constexpr size_t kLineWidth = 100;

const char* rows_name(GridRows rows) {
  return rows == GridRows::kQueries   ? "queries"
         : rows == GridRows::kKeys    ? "keys"
         : rows == GridRows::kNewKeys ? "new keys"
         : rows == GridRows::kHeads   ? "sum of all rows"
         : rows == GridRows::kOnce    ? "order of all sequences"
                                      : "packed queries";
}

void write_formula(SourceWriter& out, const Problem& problem) {
  out.line("//");
  if (is_general(problem)) {
    for (const std::string& line : score_formula(problem)) write_comment(out, line);
  } else if (problem.p == 0) {
    out.line("// LSSA: A = softplus(log(d) log(N) cos(q, k)),  P = A / sum A,  o = P v");
  } else {
    out.line("// LSSAR: A = softplus(log(d) log(N) cos(q, k)),  P = A / sum A,");
    out.line("//        W = max(N P - $b$, 0)^$p$ (offset 0 where N <= 3),  o = W v / sum W",
             {{"b", fmt::format("{}", problem.offset)}, {"p", std::to_string(problem.p)}});
  }
}

std::string length_name(int64_t length, const char* name) {
  return length == 0 ? std::string(name) : std::to_string(length);
}

void write_shapes(SourceWriter& out, const Problem& problem) {
  const std::string queries = length_name(built_in_seq_q(problem), "seq_q");
  const std::string keys = length_name(built_in_seq_k(problem), "seq_k");
  const auto shape = [&](const char* names, const char* heads, const std::string& rows, int dim) {
    out.line("//   $names$ [batch, $heads$, $rows$, $dim$] $dtype$",
             {{"names", fmt::format("{:<6}", names)},
              {"heads", heads},
              {"rows", rows},
              {"dim", std::to_string(dim)},
              {"dtype", dtype_name(problem.dtype)}});
  };
  const bool is_backward = problem.pass == Pass::kBackward;
  out.line("//");
  out.line("// shapes (batch, heads and lengths by name are the call's):");
  shape(is_backward ? "q, dq" : "q", "heads", queries, problem.head_dim);
  shape(is_backward ? "k, dk" : "k", "kv_heads", keys, problem.head_dim);
  shape(is_backward ? "v, dv" : "v", "kv_heads", keys, problem.head_dim_v);
  shape(is_backward ? "o, do" : "o", "heads", queries, problem.head_dim_v);
}

std::string value_text(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// A field and its value.
using Entry = std::pair<std::string, std::string>;

// An entry for each field, and one for all of a tiling's, which goes to `tilings`.
void list_fields(const nlohmann::json& fields, std::vector<Entry>& entries,
                 std::vector<Entry>& tilings) {
  for (const auto& [name, value] : fields.items()) {
    if (!value.is_object()) {
      entries.emplace_back(name, value_text(value));
    } else if (value.contains("block_rows")) {
      tilings.emplace_back(name, fmt::format("{} rows, {} columns, {} stages, {} blocks per SM",
                                             value["block_rows"].dump(), value["block_cols"].dump(),
                                             value["stages"].dump(), value["min_blocks"].dump()));
    } else {
      list_fields(value, entries, tilings);
    }
  }
}

// Tilings, then the other fields, in as many columns as there is room for, read downwards.
void write_schedule(SourceWriter& out, const nlohmann::json& fields) {
  constexpr size_t kMargin = std::string_view("//   ").size(), kGap = 2;
  std::vector<Entry> entries, tilings;
  list_fields(fields, entries, tilings);
  size_t name_width = 0, width = 0;
  for (const auto& entry : entries) name_width = std::max(name_width, entry.first.size());
  for (const auto& entry : entries) width = std::max(width, name_width + 1 + entry.second.size());
  for (const auto& [name, value] : tilings)
    out.line("//   $name$ $value$",
             {{"name", fmt::format("{:<{}}", name, name_width)}, {"value", value}});
  const size_t columns = std::max<size_t>(1, (kLineWidth - kMargin + kGap) / (width + kGap));
  const size_t rows = (entries.size() + columns - 1) / columns;
  for (size_t row = 0; row < rows; ++row) {
    std::string line = "//   ";
    for (size_t i = row; i < entries.size(); i += rows) {
      const std::string entry =
          fmt::format("{:<{}} {}", entries[i].first, name_width, entries[i].second);
      line += i + rows < entries.size() ? fmt::format("{:<{}}", entry, width + kGap) : entry;
    }
    out.raw(line + "\n");
  }
}

void write_launches(SourceWriter& out, const std::vector<Step>& steps) {
  const bool takes_maps = std::any_of(steps.begin(), steps.end(),
                                      [](const Step& step) { return !step.launch.maps.empty(); });
  out.line("//");
  out.line("// launches, in order (one-dimensional grids; one AttentionParams by value$or$",
           {{"or", takes_maps ? ", or TmaParams with" : "):"}});
  if (takes_maps) out.line("// its tensor maps in the order of the kernel's enum of maps):");
  if (std::any_of(steps.begin(), steps.end(),
                  [](const Step& step) { return step.launch.rotation != Rotation::kNone; }))
    out.line("// The rotations take one RotaryParams by value, or RotarySequencesParams.");
  for (const Step& step : steps) {
    const int shared_bytes = step.launch.shared_bytes;
    out.line("//   $entry$: $rows$ $kind$ of a head per block, $threads$ threads$shared$",
             {{"entry", step.launch.entry},
              {"rows", std::to_string(step.launch.rows_per_block)},
              {"kind", rows_name(step.launch.grid_rows)},
              {"threads", std::to_string(step.launch.threads)},
              {"shared",
               shared_bytes == 0 ? "" : fmt::format(", {} bytes of shared memory", shared_bytes)}});
  }
}

// Which calls have the launch.
std::string calls_with(const LaunchStep& step) {
  if (step.most_rows != 0) return fmt::format("; at most {} rows per kv head", step.most_rows);
  return step.least_rows == 0 ? "" : fmt::format("; {} or more rows per kv head", step.least_rows);
}

// The same for a CPU kernel: a function that is called once for each block.
void write_calls(SourceWriter& out, const std::vector<Step>& steps) {
  out.line("//");
  out.line("// calls, in order, one for each block, by any number of threads:");
  for (const Step& step : steps)
    out.line(
        "//   $entry$: $rows$ $kind$ of a head per block, $scratch$ bytes of scratch memory$calls$",
        {{"entry", step.launch.entry},
         {"rows", std::to_string(step.launch.rows_per_block)},
         {"kind", rows_name(step.launch.grid_rows)},
         {"scratch", std::to_string(step.launch.shared_bytes)},
         {"calls", calls_with(step.launch)}});
}

// Writes the parts by name. All stages of a part are one row, in the place of the first.
void write_shared_map(SourceWriter& out, const Problem& problem, const Schedule& schedule,
                      const std::string& entry) {
  const std::vector<SharedPart> parts = shared_layout(problem, schedule, entry);
  if (parts.empty()) return;
  out.line("//");
  out.line("// shared memory of $entry$ (from byte, bytes, what):", {{"entry", entry}});
  for (const SharedPart& part : parts) {
    if (part.stage > 0) continue;
    const auto slots = std::count_if(parts.begin(), parts.end(), [&](const SharedPart& other) {
      return other.name == part.name && part.stage == 0;
    });
    const std::string bytes =
        slots == 0 ? std::to_string(part.bytes) : fmt::format("{} x {}", slots, part.bytes);
    out.line("//   $offset$  $bytes$  $name$: $note$",
             {{"offset", fmt::format("{:>6}", part.offset)},
              {"bytes", fmt::format("{:>10}", bytes)},
              {"name", part.name},
              {"note", part.note}});
  }
}

// Breaks JSON after commas into lines. The first line has the prefix, the others kRequestMargin.
void write_request(SourceWriter& out, const std::string& json) {
  std::string line = kRequestPrefix;
  for (size_t at = 0; at < json.size();) {
    const size_t comma = json.find(',', at);
    const size_t end = comma == json.npos ? json.size() : comma + 1;
    if (line.size() + end - at > kLineWidth) {
      out.raw(line + "\n");
      line = kRequestMargin;
    }
    line += json.substr(at, end - at);
    at = end;
  }
  out.raw(line + "\n");
}

template <typename S>
void drop_unread(nlohmann::json& fields, unsigned readers) {
  for_each_field<S>([&]<typename T>(const Field<S, T>& field) {
    if ((field.readers & readers) == 0) {
      fields.erase(field.name);
    } else if constexpr (has_fields<T>) {
      drop_unread<T>(fields[field.name], readers);
    }
  });
}

// Fields that kernels of expressions do not read, or that have one value for them.
std::vector<std::string> fields_of_own_kernels(const Problem& problem) {
  if (!is_general(problem)) return {};
  std::vector<std::string> names = {"softplus_degree", "skip_tiles", "evaluator", "stagger"};
  if (!has_pass_one(problem)) names.push_back("score_cols");
  return names;
}

}  // namespace

nlohmann::json fields_of_pass(const Schedule& schedule, const Problem& problem) {
  nlohmann::json fields = to_json(schedule);
  drop_unread<Schedule>(fields, readers_of(problem.pass));
  if (problem.pass == Pass::kBackward && !has_dq_tiles(schedule)) fields.erase("dq");
  if (schedule.variant != Variant::kHopper) fields.erase("hopper");
  if (schedule.variant != Variant::kCpu) {
    fields.erase("cpu");
  } else {
    for (auto it = fields.begin(); it != fields.end();) {
      const bool is_read = it.key() == "variant" || it.key() == "softplus_degree" ||
                           it.key() == "cpu" || it.key() == "dq_mode";
      it = is_read ? std::next(it) : fields.erase(it);
    }
  }
  for (const std::string& name : fields_of_own_kernels(problem)) {
    fields.erase(name);
    if (fields.contains("hopper")) fields["hopper"].erase(name);
  }
  return fields;
}

std::string schedule_text(const Schedule& schedule, const Problem& problem) {
  std::string text = to_string(schedule);
  // A field's part is its name and its value, each after a blank. (skip_tiles has no value, and is
  // never set here.)
  for (const std::string& name : fields_of_own_kernels(problem)) {
    if (name == "skip_tiles") continue;
    const size_t begin = text.find(" " + name + " ");
    if (begin == std::string::npos) continue;
    const size_t value = begin + name.size() + 2;
    text.erase(begin, std::min(text.find(' ', value), text.size()) - begin);
  }
  return text;
}

std::string source_header(const std::string& name, const Problem& problem, const Schedule& schedule,
                          const Target& target, const std::vector<Step>& steps) {
  SourceWriter out;
  out.line("// $name$: made by lssar; edit and compile it alone:", {{"name", name}});
  out.line(target.is_cpu() ? "// clang++ -std=c++17 -O3 $arch$ -c -x c++ FILE"
                           : "// nvcc -cubin -arch=$arch$$options$ FILE",
           {{"arch", target.is_cpu() ? cpu_compile_options(target) : target.name()},
            {"options", problem.invariant ? std::string(" ") + kNoContraction : ""}});
  out.line("//");
  write_comment(out, "problem:  " + to_string(problem));
  if (target.is_cpu()) out.line("// target:   $text$", {{"text", target.name()}});
  write_formula(out, problem);
  write_shapes(out, problem);
  out.line("//");
  out.line("// schedule:");
  write_schedule(out, fields_of_pass(schedule, problem));
  if (target.is_cpu()) {
    write_calls(out, steps);
  } else {
    write_launches(out, steps);
    for (const Step& step : steps) write_shared_map(out, problem, schedule, step.launch.entry);
  }
  out.line("//");
  write_request(out, request_json(problem, schedule, target).dump());
  out.raw(kHeaderEnd);
  return out.text();
}

std::string source_without_header(const std::string& source) {
  const size_t end = source.find(kHeaderEnd);
  return end == std::string::npos ? source : source.substr(end + std::string(kHeaderEnd).size());
}

}  // namespace lssar
