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
  ScheduleChoice choice;  // unless given, a variation of the problem or target has its own
  std::optional<KernelSource> source;  // of a file; else it is generated
};

// 4 to 64 hexadecimal digits, which are no file's name.
bool is_cache_key(const std::string& text);

// What the generator makes now of the problem, schedule and target that the entry was made of.
// `digits`: its key, or the first ones of it (`lssar cache ls` prints 16). kInvalidArgument: no
// such entry, several, which are listed, or one that is no kernel's.
Result<KernelVariation> kernel_of_key(Store& store, const std::string& digits);

Result<KernelVariation> kernel_of_file(const std::string& path);

// `text`: FIELD=VALUE, several joined by ',', or a path that ends with ".cu". A field is one of the
// problem's, one of the schedule's ("forward.block_cols"), or "target". Values are JSON, or the
// text of a string. `choose` gives schedules where the base's was not given.
using ChooseSchedule = std::function<Result<ScheduleChoice>(const Problem&, const Target&)>;
Result<KernelVariation> varied(const KernelVariation& base, const std::string& text,
                               const ChooseSchedule& choose);

}  // namespace lssar::command
