// Breach: the first rule that a schedule breaks. A search asks for it for every combination of its
// space. Most combinations break a rule, and the search only needs to know which. The reason's text
// takes many times as long, so it is made only for callers that ask for it.
//
// Used by the code that has rules (schedule_*.cpp, autotune/space/worth.cpp) and by the code that
// enumerates schedules. Threads: plain values and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "base/status.h"
#include "codegen/schedule.h"

namespace lssar {

enum class Reasons { kGiven, kLeftOut };

class [[nodiscard]] Breach {
 public:
  Breach() = default;  // no rule is broken
  // Keeps a pointer to `rule`.
  explicit Breach(const char* rule, std::string reason = "")
      : rule_(rule), reason_(std::move(reason)) {}

  bool ok() const { return rule_ == nullptr; }
  // The field at fault, "forward.block_rows". REQUIRES: !ok().
  std::string_view rule() const { return rule_; }
  // "schedule.forward.block_rows = 80: allowed are ..."; empty with Reasons::kLeftOut.
  const std::string& reason() const { return reason_; }
  // kInvalidArgument with the reason, or OK.
  Status status() const { return ok() ? Status() : invalid_argument(reason_); }

 private:
  const char* rule_ = nullptr;
  std::string reason_;
};

// Makes breaches. A text is a literal, or a function that is called only if reasons are wanted.
class Refuse {
 public:
  explicit constexpr Refuse(Reasons reasons) : gives_reasons_(reasons == Reasons::kGiven) {}

  // "schedule.<rule> = <value>: <text>"
  template <typename Value, typename Text>
  Breach operator()(const char* rule, const Value& value, const Text& text) const {
    if (!gives_reasons_) return Breach(rule);
    return Breach(rule, fmt::format("schedule.{} = {}: {}", rule, value, said(text)));
  }
  // "schedule.<rule><text>", for rules about more than one value.
  template <typename Text>
  Breach operator()(const char* rule, const Text& text) const {
    if (!gives_reasons_) return Breach(rule);
    return Breach(rule, fmt::format("schedule.{}{}", rule, said(text)));
  }
  // Converts the Status of a check.
  Breach operator()(const char* rule, const Status& status) const {
    return Breach(rule, status.message());
  }

 private:
  template <typename Text>
  static std::string said(const Text& text) {
    if constexpr (std::is_invocable_v<Text>) {
      return text();
    } else {
      return text;
    }
  }

  bool gives_reasons_;
};

// The names of one tiling's rules.
struct TilingRules {
  const char *tiling, *block_rows, *block_cols, *stages, *min_blocks, *registers;
};
inline constexpr TilingRules kForwardRules = {
    "forward",        "forward.block_rows", "forward.block_cols",
    "forward.stages", "forward.min_blocks", "forward.registers"};
inline constexpr TilingRules kDkdvRules = {"dkdv",        "dkdv.block_rows", "dkdv.block_cols",
                                           "dkdv.stages", "dkdv.min_blocks", "dkdv.registers"};
inline constexpr TilingRules kDqRules = {"dq",        "dq.block_rows", "dq.block_cols",
                                         "dq.stages", "dq.min_blocks", "dq.registers"};

// The first rule for which validate(schedule, problem, target) refuses the schedule.
Breach find_breach(const Schedule& schedule, const Problem& problem, const Target& target,
                   Reasons reasons);

}  // namespace lssar

// Returns early if the expression found a Breach.
#define LSSAR_RETURN_IF_BROKEN(expr)                                     \
  do {                                                                   \
    if (::lssar::Breach breach_ = (expr); !breach_.ok()) return breach_; \
  } while (false)
