// Breach: the first rule that a schedule breaks. A search asks for it for every combination of its
// space. Most combinations break a rule, and the search needs only the rule. Reasons are text and
// take many times as long, so they are made only for callers that ask for them.
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
  Breach() = default;  // none
  // `rule` is kept by reference.
  explicit Breach(const char* rule, std::string reason = "")
      : rule_(rule), reason_(std::move(reason)) {}

  bool ok() const { return rule_ == nullptr; }
  // The field at fault: "forward.block_rows". REQUIRES: !ok().
  std::string_view rule() const { return rule_; }
  // "schedule.forward.block_rows = 80: allowed are ..."; empty with Reasons::kLeftOut.
  const std::string& reason() const { return reason_; }
  // kInvalidArgument with the reason, or OK.
  Status status() const { return ok() ? Status() : invalid_argument(reason_); }

 private:
  const char* rule_ = nullptr;
  std::string reason_;
};

// Makes breaches. Texts are literals, or functions that are called only where reasons are given.
class Refuse {
 public:
  explicit constexpr Refuse(Reasons reasons) : gives_reasons_(reasons == Reasons::kGiven) {}

  // "schedule.<rule> = <value>: <text>"
  template <typename Value, typename Text>
  Breach operator()(const char* rule, const Value& value, const Text& text) const {
    if (!gives_reasons_) return Breach(rule);
    return Breach(rule, fmt::format("schedule.{} = {}: {}", rule, value, said(text)));
  }
  // "schedule.<rule><text>", where it is not one value that is at fault.
  template <typename Text>
  Breach operator()(const char* rule, const Text& text) const {
    if (!gives_reasons_) return Breach(rule);
    return Breach(rule, fmt::format("schedule.{}{}", rule, said(text)));
  }
  // For a check that refuses by a Status.
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

// The rules of one tiling, by what they are called.
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

// The first rule that validate(schedule, problem, target) refuses the schedule by.
Breach find_breach(const Schedule& schedule, const Problem& problem, const Target& target,
                   Reasons reasons);

}  // namespace lssar

// Return early with the Breach of an expression that found one.
#define LSSAR_RETURN_IF_BROKEN(expr)                                     \
  do {                                                                   \
    if (::lssar::Breach breach_ = (expr); !breach_.ok()) return breach_; \
  } while (false)
