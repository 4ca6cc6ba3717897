// What the tests of the compilers share: requests, and a test that runs once per compiler. It is
// skipped, with the reason, if the compiler is not installed.
//
// Threads: as Compiler; CompilerTest itself belongs to the thread of its test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "codegen/target.h"
#include "compile/compiler.h"

namespace lssar {

constexpr char kAddOneSource[] = R"(
extern "C" __global__ void add_one(float* x) {
  x[blockIdx_x() * 64 + threadIdx_x()] += 1.0f;
}
)";

// The registers of the grid by PTX, for only NVRTC has threadIdx and blockIdx without a header.
constexpr char kIndices[] = R"(
__device__ inline int threadIdx_x() { int i; asm("mov.u32 %0, %%tid.x;" : "=r"(i)); return i; }
__device__ inline int blockIdx_x() { int i; asm("mov.u32 %0, %%ctaid.x;" : "=r"(i)); return i; }
)";

inline CompileRequest make_request(const std::string& name, const std::string& source,
                                   ImageKind kind = ImageKind::kPtx,
                                   const std::string& target = "sm_80") {
  CompileRequest request;
  request.name = name;
  request.source = source;
  request.kind = kind;
  const Result<Target> known = target_from_name(target);
  if (known.ok()) request.target = *known;
  return request;
}

inline CompileRequest add_one_request(ImageKind kind = ImageKind::kPtx,
                                      const std::string& target = "sm_80") {
  return make_request("add_one", std::string(kIndices) + kAddOneSource, kind, target);
}

inline std::string compiler_choice_name(CompilerChoice choice) {
  return choice == CompilerChoice::kNvrtc ? "nvrtc" : "llvm";
}

class CompilerTest : public ::testing::TestWithParam<CompilerChoice> {
 protected:
  void SetUp() override {
    Result<std::shared_ptr<const Compiler>> opened = open_compiler(GetParam());
    if (!opened.ok()) GTEST_SKIP() << opened.status().message();
    compiler_ = *opened;
  }

  std::shared_ptr<const Compiler> compiler_;
};

inline auto every_compiler() {
  return ::testing::Values(CompilerChoice::kNvrtc, CompilerChoice::kLlvm);
}

}  // namespace lssar
