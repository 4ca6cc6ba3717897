// Reads the report of `ptxas -v` in a compile log: the one place where spills are told. Used by
// nvrtc_compiler.cpp; a pure function.
#pragma once

#include <string>
#include <vector>

#include "runtime/compiler.h"

namespace lssar {

// One entry per "Compiling entry function" of the log, in order; fields the report lacks stay -1.
// A line that is not understood is skipped: the log of a newer compiler must not fail a compile.
std::vector<KernelResources> parse_ptxas_log(const std::string& log);

// Completes what the image told (`resources`, by entry) with the report: spills, and static shared
// memory and registers, for which the report is exact (the sections of an image include what the
// system reserves).
void add_ptxas_report(const std::vector<KernelResources>& report,
                      std::vector<KernelResources>* resources);

}  // namespace lssar
