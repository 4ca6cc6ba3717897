// Kernels a user can name: by a file, by a key of the binary cache, or as a variation of another.
//
// Used by `lssar inspect`. Threads: plain values; a Store may be used by any.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "cache/store.h"
#include "codegen/emit.h"
#include "codegen/problem.h"
#include "codegen/target.h"
#include "runtime/schedule_origin.h"

namespace lssar::command {

struct KernelVariation {
  Problem problem;
  Target target;
  ScheduleChoice choice;  // if not given, a variation of problem or target gets its own
  std::optional<KernelSource> source;  // from a file; else it is generated
};

// Whether it is 4 to 64 hexadecimal digits, and no file's name.
bool is_cache_key(const std::string& text);

// What the generator makes today from the entry's problem, schedule and target. `digits` is its
// key, or the first digits of it (`lssar cache ls` prints kShownHashDigits). kInvalidArgument:
// there is no such entry, there are several (they are listed), or it is no kernel.
Result<KernelVariation> kernel_of_key(Store& store, const std::string& digits);

Result<KernelVariation> kernel_of_file(const std::string& path);

// `text` is FIELD=VALUE, several joined by ',', or a path that ends with ".cu". A field is one of
// the problem's, one of the schedule's ("forward.block_cols"), or "target". Values are JSON, or the
// text of a string. `choose` is used if the base's schedule was not given.
using ChooseSchedule = std::function<Result<ScheduleChoice>(const Problem&, const Target&)>;
Result<KernelVariation> varied(const KernelVariation& base, const std::string& text,
                               const ChooseSchedule& choose);

}  // namespace lssar::command
