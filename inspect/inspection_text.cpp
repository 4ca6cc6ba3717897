#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "device/counters_text.h"
#include "inspect/inspection.h"

namespace lssar {
namespace {

constexpr size_t kShownLines = 8;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == text.npos ? "" : text.substr(first);
}

std::string mix_text(const SassCounts& counts) {
  std::string text;
  for (int i = 0; i < kNumSassClasses; ++i) {
    if (counts[size_t(i)] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts[size_t(i)],
                        sass_class_name(static_cast<SassClass>(i)));
  }
  return text;
}

uint32_t total(const SassCounts& counts) {
  uint32_t sum = 0;
  for (const uint32_t count : counts) sum += count;
  return sum;
}

// Instructions for each multiply-add of a vector in a CPU's loop of products, and for a score. A
// product of pairs is two multiply-adds.
std::string product_text(const SassKernel& kernel, const SassLoop& loop,
                         double score_multiply_adds) {
  if (!loop.is_hot || score_multiply_adds <= 0) return "";
  const auto pairs = std::count_if(loop.own.begin(), loop.own.end(), [&](uint32_t i) {
    return kernel.instructions[i].opcode == "vdpbf16ps";
  });
  const double each = double(total(loop.every_iteration)) /
                      (loop.every_iteration[size_t(SassClass::kFma)] + double(pairs));
  return fmt::format(
      "     {:>9} {}{:.2f} instructions per multiply-add of a vector, {:.1f} per score\n", "",
      std::string(size_t(loop.depth), ' '), each, each * score_multiply_adds);
}

std::string kernel_text(const SassKernel& kernel, double score_multiply_adds) {
  std::string text = fmt::format("  {}: {} instructions: {}\n", kernel.name,
                                 kernel.instructions.size(), mix_text(kernel.counts()));
  for (const SassLoop& loop : kernel.loops) {
    text +=
        fmt::format("  {} {:0>4x}-{:0>4x} {}{} in every iteration: {}\n", loop.is_hot ? ">>" : "  ",
                    loop.first_address, loop.last_address, std::string(size_t(loop.depth), ' '),
                    total(loop.every_iteration), mix_text(loop.every_iteration));
    const uint32_t rare = total(loop.at_most) - total(loop.every_iteration);
    if (rare > 0)
      text += fmt::format("     {:>9} {}{} more that a branch may go around\n", "",
                          std::string(size_t(loop.depth), ' '), rare);
    text += product_text(kernel, loop, score_multiply_adds);
  }
  return text;
}

struct Loser {
  SourcePlace place;
  uint64_t lost = 0;
  std::string what;
};

// The source lines that lose most to bank conflicts or unused sectors.
std::string losers_text(const CountedKernel& kernel, const std::vector<std::string>& source) {
  std::vector<Loser> losers;
  for (const auto& [place, activity] : kernel.by_place) {
    if (activity.shared.lost() > 0) {
      losers.push_back({place, activity.shared.lost(),
                        fmt::format("{} of {} passes over the banks lost", activity.shared.lost(),
                                    activity.shared.wavefronts)});
    }
    if (activity.global_excess > 0) {
      losers.push_back({place, activity.global_excess,
                        fmt::format("{} of {} sectors more than their bytes fill",
                                    activity.global_excess, activity.global.sectors)});
    }
  }
  std::stable_sort(losers.begin(), losers.end(),
                   [](const Loser& a, const Loser& b) { return a.lost > b.lost; });
  const auto line_text = [&](int line) {
    return line > 0 && size_t(line) <= source.size() ? trimmed(source[size_t(line) - 1])
                                                     : std::string("a line that is not known");
  };
  std::string text;
  for (size_t i = 0; i < losers.size() && i < kShownLines; ++i) {
    const SourcePlace& place = losers[i].place;
    text +=
        fmt::format("    {}\n    {:>6}: {}\n", losers[i].what, place.line, line_text(place.line));
    if (place.caller > 0)
      text += fmt::format("    {:>6}: {}\n", place.caller, line_text(place.caller));
  }
  if (text.empty()) return "    no bank conflict, no sector that is not used\n";
  return text;
}

std::string counted_text(const Inspection& inspection) {
  const Sizes& sizes = inspection.counted_sizes;
  std::string text =
      fmt::format("\nCounted on the virtual device: batch {}, heads {}, {} queries, {} keys\n",
                  sizes.batch, sizes.heads, sizes.seq_q, sizes.seq_k);
  const std::vector<std::string> source = lines_of(inspection.counted_source);
  std::vector<KernelCounters> counters;
  for (const CountedKernel& kernel : inspection.counted) counters.push_back(kernel.counters);
  text += counters_table(counters);
  text += "\nLines of the source that lose most\n";
  for (const CountedKernel& kernel : inspection.counted)
    text += fmt::format("  {}\n", kernel.counters.kernel) + losers_text(kernel, source);
  return text;
}

nlohmann::json counts_json(const SassCounts& counts) {
  nlohmann::json json = nlohmann::json::object();
  for (int i = 0; i < kNumSassClasses; ++i) {
    if (counts[size_t(i)] > 0) json[sass_class_name(static_cast<SassClass>(i))] = counts[size_t(i)];
  }
  return json;
}

nlohmann::json to_json(const SassKernel& kernel) {
  nlohmann::json json = {{"kernel", kernel.name},
                         {"instructions", kernel.instructions.size()},
                         {"classes", counts_json(kernel.counts())},
                         {"loops", nlohmann::json::array()}};
  for (const SassLoop& loop : kernel.loops) {
    json["loops"].push_back({{"first_address", loop.first_address},
                             {"last_address", loop.last_address},
                             {"depth", loop.depth},
                             {"hot", loop.is_hot},
                             {"every_iteration", counts_json(loop.every_iteration)},
                             {"at_most", counts_json(loop.at_most)}});
  }
  return json;
}

// A mark for each instruction: '>' in a loop with matrix products, '|' in another loop.
std::vector<char> loop_marks(const SassKernel& kernel) {
  std::vector<char> marks(kernel.instructions.size(), ' ');
  for (const SassLoop& loop : kernel.loops)
    for (const uint32_t i : loop.own) marks[i] = loop.is_hot ? '>' : '|';
  return marks;
}

}  // namespace

std::string inspection_text(const Inspection& inspection) {
  std::string text = fmt::format("{}, key {}\n\n{}", inspection.facts.source.name,
                                 inspection.facts.key, facts_table(inspection.facts));
  if (!inspection.kernels.empty()) {
    text += "\nMachine code, by class; loops by address, those with matrix products marked >>\n";
    for (const SassKernel& kernel : inspection.kernels)
      text += kernel_text(kernel, inspection.score_multiply_adds);
  }
  if (!inspection.counted.empty()) text += counted_text(inspection);
  if (!inspection.problems.empty()) text += "\n";
  for (const std::string& problem : inspection.problems) text += problem + "\n";
  return text;
}

nlohmann::json to_json(const Inspection& inspection) {
  nlohmann::json json = to_json(inspection.facts);
  json["problems"] = inspection.problems;
  json["machine_code"] = nlohmann::json::array();
  for (const SassKernel& kernel : inspection.kernels)
    json["machine_code"].push_back(to_json(kernel));
  std::vector<KernelCounters> counters;
  for (const CountedKernel& kernel : inspection.counted) counters.push_back(kernel.counters);
  json["counted"] = counters_json(counters);
  const Sizes& sizes = inspection.counted_sizes;
  json["counted"]["sizes"] = {{"batch", sizes.batch},
                              {"heads", sizes.heads},
                              {"kv_heads", sizes.kv_heads},
                              {"seq_q", sizes.seq_q},
                              {"seq_k", sizes.seq_k}};
  json["counted"]["lines"] = nlohmann::json::array();
  for (const CountedKernel& kernel : inspection.counted) {
    for (const auto& [place, activity] : kernel.by_place) {
      json["counted"]["lines"].push_back({{"kernel", kernel.counters.kernel},
                                          {"line", place.line},
                                          {"caller", place.caller},
                                          {"warp_instructions", activity.warp_instructions},
                                          {"shared_wavefronts", activity.shared.wavefronts},
                                          {"shared_lost", activity.shared.lost()},
                                          {"global_sectors", activity.global.sectors},
                                          {"global_excess", activity.global_excess}});
    }
  }
  return json;
}

std::string side_by_side(const Inspection& inspection) {
  const std::vector<std::string> source = lines_of(inspection.facts.source.source);
  std::string text;
  for (const SassKernel& kernel : inspection.kernels) {
    text += fmt::format("== {}\n", kernel.name);
    const std::vector<char> marks = loop_marks(kernel);
    int line = -1;
    for (size_t i = 0; i < kernel.instructions.size(); ++i) {
      const SassInstruction& in = kernel.instructions[i];
      if (in.line != line) {
        line = in.line;
        const bool is_known = line > 0 && size_t(line) <= source.size();
        text += fmt::format("{:>6}: {}\n", line,
                            is_known ? trimmed(source[size_t(line) - 1]) : "not known");
      }
      text += fmt::format("  {} {:0>4x}  {}\n", marks[i], in.address, in.text);
    }
  }
  return text;
}

}  // namespace lssar
