// The questions that a GPU is asked, as a file lists them (tools/probes.json): which problem, which
// settings are timed in turns, which constants of the cost model their times can correct.
//
// A file can be changed where there is no compiler. Threads: plain values and pure functions.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "codegen/problem.h"
#include "codegen/sizes.h"
#include "reference/random_inputs.h"

namespace lssar::probe {

// A replacement in the generated source. `from` must occur there.
struct SourceEdit {
  std::string from, to;
};

struct Setting {
  std::string name;
  nlohmann::json schedule = nlohmann::json::object();  // fields over the default
  // What no field of a schedule varies. The results of such a kernel may be wrong, so they are not
  // checked, and it is no candidate for a default.
  std::vector<SourceEdit> edits;
  bool cold_l2 = true;
};

// A constant of the cost model, and the values for which estimates are made.
struct ConstantRange {
  std::string name;
  double low = 0, high = 0;
};

struct Probe {
  std::string name;
  Problem problem;
  Sizes sizes;
  InputKind data = InputKind::kGauss;
  std::vector<Setting> settings;  // the first is what the others are compared with
  int rounds = 0;                 // each setting once per round
  double seconds = 0;             // > 0: the first setting alone, again and again, for so long
  std::vector<ConstantRange> constants;
  nlohmann::json definition;  // the whole entry
};

// The digits that identify an entry: the same for the same questions.
std::string definition_hash(const Probe& probe);

// kInvalidArgument names the field, its value and what is allowed; kIoError: the file.
Result<std::vector<Probe>> read_probes(const std::string& path);

}  // namespace lssar::probe
