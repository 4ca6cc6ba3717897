// Reads the report of `ptxas -v` in a compile log. Only this report has spills, and only it says
// where wgmma or setmaxnreg were not done as written. Used by nvrtc_compiler.cpp and for images
// from the cache (image_metadata.cpp). Pure functions.
#pragma once

#include <string>
#include <vector>

#include "compile/compiler.h"

namespace lssar {

// One entry per "Compiling entry function" of the log, in order. Fields that the report lacks stay
// -1. A line that is not understood is skipped, because the log of a newer compiler must not fail a
// compile.
std::vector<KernelResources> parse_ptxas_log(const std::string& log);

// The advisory messages C7500 to C7599, each from its code to the end of its line: "(C7508)
// Potential Performance Loss: 'setmaxnreg' ignored; ...".
std::vector<std::string> parse_assembler_warnings(const std::string& log);

// Adds the report to `resources`, which were read from the image: spills, and the exact static
// shared memory and registers. An image's sections also include what the system reserves.
void add_ptxas_report(const std::vector<KernelResources>& report,
                      std::vector<KernelResources>* resources);

}  // namespace lssar
