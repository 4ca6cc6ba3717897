// Collects what `lssar doctor` prints about this machine.
//
// Threads: one; compilers and drivers are opened.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace lssar::command {

// Everything that is printed. A non-empty "problem" says why something cannot be used, and how to
// get it.
nlohmann::json doctor_report();

}  // namespace lssar::command
