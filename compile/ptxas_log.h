// Reads the report of `ptxas -v` in a compile log: the one place where spills are told, and that
// wgmma or setmaxnreg are not done as the source says. Used by nvrtc_compiler.cpp and for images
// out of the cache (image_metadata.cpp); pure functions.
#pragma once

#include <string>
#include <vector>

#include "compile/compiler.h"

namespace lssar {

// One entry per "Compiling entry function" of the log, in order; fields the report lacks stay -1.
// A line that is not understood is skipped: the log of a newer compiler must not fail a compile.
std::vector<KernelResources> parse_ptxas_log(const std::string& log);

// The advisory messages C7500 to C7599, each from its code to the end of its line: "(C7508)
// Potential Performance Loss: 'setmaxnreg' ignored; ...".
std::vector<std::string> parse_assembler_warnings(const std::string& log);

// Completes what the image told (`resources`, by entry) with the report: spills, and static shared
// memory and registers, for which the report is exact (the sections of an image include what the
// system reserves).
void add_ptxas_report(const std::vector<KernelResources>& report,
                      std::vector<KernelResources>* resources);

}  // namespace lssar
