// Kernels of CPU targets that were compiled when lssar was packaged, so that a machine without the
// LLVM compiler runs common problems. They are functions of liblssar_kernels.so, which lies beside
// liblssar.so. As a Compiler, "shipped" makes images of the sources that it knows and no others.
//
// Threads: any.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "compile/compiler.h"
#include "compile/object_loader.h"

namespace lssar {

// 64 hexadecimal digits that name a kernel by its source, without the header, and its target's
// architecture. REQUIRES: target.is_cpu().
std::string shipped_kernel_name(const std::string& source, const Target& target);

// kMissing: there is no such library, or it is another version's.
Result<std::shared_ptr<const Compiler>> make_shipped_compiler();

// The functions of an image of the shipped compiler; null for the bytes of an object. kMissing: the
// library that this process has opened does not hold that kernel.
Result<std::unique_ptr<LoadedObject>> load_shipped(const std::string& bytes);

}  // namespace lssar
