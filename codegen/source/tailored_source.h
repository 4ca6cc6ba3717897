// Turns template files into the source of one kernel: puts its constants in and keeps only what it
// reaches. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lssar {

// A part of the source, in order: a template file, or text from the generator.
struct SourcePart {
  std::string title;  // "ptx/math.cuh"
  std::string text;
};

// The parts that `roots` (the source after them) needs, in one namespace lssar_device that is left
// open. One of the parts has `struct Config`, whose constants with literal values decide branches.
std::string tailor_source(const std::vector<SourcePart>& parts, std::string_view roots);

// The parts that `entries` needs, with short names for their classes, and then `entries`.
// `constants` are names that are kept even if nothing reads them.
std::string tailor_kernels(const std::vector<SourcePart>& parts, std::string entries,
                           std::string_view constants);

}  // namespace lssar
