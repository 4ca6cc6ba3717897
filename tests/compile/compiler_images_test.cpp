// Images: what each compiler makes of a source, alone and with others at the same time.
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "tests/compile/compiler_fixture.h"

namespace lssar {
namespace {

constexpr int kThreads = 8;

class CompilerImages : public CompilerTest {};

INSTANTIATE_TEST_SUITE_P(Compilers, CompilerImages, every_compiler(),
                         [](const auto& tested) { return compiler_choice_name(tested.param); });

class NvrtcImages : public CompilerTest {};

INSTANTIATE_TEST_SUITE_P(Compilers, NvrtcImages, ::testing::Values(CompilerChoice::kNvrtc),
                         [](const auto& tested) { return compiler_choice_name(tested.param); });

class LlvmImages : public CompilerTest {};

INSTANTIATE_TEST_SUITE_P(Compilers, LlvmImages, ::testing::Values(CompilerChoice::kLlvm),
                         [](const auto& tested) { return compiler_choice_name(tested.param); });

// `count` values that are all alive from the first loop to the second.
std::string many_values_source(int count) {
  return std::string(kIndices) + fmt::format(R"(
extern "C" __global__ void __launch_bounds__(1024) many(float* x, int n) {{
  float v[{0}];
#pragma unroll
  for (int i = 0; i < {0}; ++i) v[i] = x[i * 1024 + threadIdx_x()];
  for (int k = 0; k < n; ++k) {{
#pragma unroll
    for (int i = 0; i < {0}; ++i) v[i] = v[i] * v[(i + 1) % {0}] + 1.0f;
  }}
#pragma unroll
  for (int i = 0; i < {0}; ++i) x[i * 1024 + threadIdx_x()] = v[i];
}}
)",
                                             count);
}

TEST_P(CompilerImages, PtxNamesTargetAndEntry) {
  const Result<Image> image = compiler_->compile(add_one_request());
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  EXPECT_EQ(image->kind, ImageKind::kPtx);
  EXPECT_EQ(image->target, "sm_80");
  EXPECT_NE(image->bytes.find(".entry add_one("), std::string::npos) << image->bytes;
  EXPECT_NE(image->bytes.find(".target sm_80"), std::string::npos) << image->bytes;
  EXPECT_EQ(image->bytes.find('\0'), std::string::npos) << "PTX is text without a NUL";
}

TEST_P(CompilerImages, PtxOfASuffixedTargetKeepsTheSuffix) {
  const Result<Image> image = compiler_->compile(add_one_request(ImageKind::kPtx, "sm_90a"));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  EXPECT_EQ(image->target, "sm_90a");
  EXPECT_NE(image->bytes.find(".target sm_90a"), std::string::npos) << image->bytes;
}

TEST_P(CompilerImages, PtxTellsNoResources) {
  const Result<Image> image = compiler_->compile(add_one_request());
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  for (const KernelResources& kernel : image->resources) EXPECT_EQ(kernel.registers, -1);
}

TEST_P(CompilerImages, SameSourceTwiceGivesTheSameBytes) {
  for (const ImageKind kind : {ImageKind::kPtx, ImageKind::kCubin}) {
    if (!compiler_->can_make(kind)) continue;
    const Result<Image> first = compiler_->compile(add_one_request(kind));
    const Result<Image> second = compiler_->compile(add_one_request(kind));
    ASSERT_TRUE(first.ok()) << first.status().to_string();
    ASSERT_TRUE(second.ok()) << second.status().to_string();
    EXPECT_EQ(first->bytes, second->bytes) << image_kind_name(kind);
  }
}

TEST_P(CompilerImages, LineInformationIsMadeWhenAskedFor) {
  CompileRequest request = add_one_request();
  const Result<Image> plain = compiler_->compile(request);
  request.extra_options = {"-lineinfo"};
  const Result<Image> with_lines = compiler_->compile(request);
  ASSERT_TRUE(plain.ok()) << plain.status().to_string();
  ASSERT_TRUE(with_lines.ok()) << with_lines.status().to_string();
  EXPECT_EQ(plain->bytes.find("\t.loc"), std::string::npos);
  EXPECT_NE(with_lines->bytes.find("\t.loc"), std::string::npos) << with_lines->bytes;
}

TEST_P(CompilerImages, WarningsOfASuccessfulCompileAreInTheLog) {
  const Result<Image> image = compiler_->compile(
      make_request("warns", "#warning look here\nextern \"C\" __global__ void warns() {}\n"));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  EXPECT_NE(image->log.find("look here"), std::string::npos) << image->log;
}

TEST_P(CompilerImages, VersionHasThreeNumbersAndThePathIsAFile) {
  int numbers[3] = {-1, -1, -1};
  char rest = 0;
  const std::string version = compiler_->version();
  EXPECT_EQ(
      std::sscanf(version.c_str(), "%d.%d.%d%c", &numbers[0], &numbers[1], &numbers[2], &rest), 3)
      << version;
  EXPECT_TRUE(std::ifstream(compiler_->path()).good()) << compiler_->path();
}

TEST_P(CompilerImages, OptionsHoldNoPathAndTellTargetsApart) {
  const std::vector<std::string> options = compiler_->options(add_one_request());
  for (const std::string& option : options) {
    EXPECT_EQ(option.find('/'), std::string::npos) << option << ": a path in the cache's key";
  }
  EXPECT_NE(options, compiler_->options(add_one_request(ImageKind::kPtx, "sm_90")));
}

TEST_P(CompilerImages, EightThreadsCompileAtOnce) {
  const ImageKind kind =
      compiler_->can_make(ImageKind::kCubin) ? ImageKind::kCubin : ImageKind::kPtx;
  std::vector<std::string> failures(kThreads);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const std::string entry = fmt::format("kernel_{}", i);
      const std::string source =
          fmt::format("extern \"C\" __global__ void {}(int* x) {{ *x = {}; }}\n", entry, i);
      const Result<Image> image = compiler_->compile(make_request(entry, source, kind));
      if (!image.ok()) {
        failures[i] = image.status().to_string();
      } else if (image->bytes.find(entry) == std::string::npos) {
        failures[i] = entry + " is not in its image";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST_P(NvrtcImages, CubinIsAnElfThatNamesItsEntry) {
  const Result<Image> image = compiler_->compile(add_one_request(ImageKind::kCubin));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  EXPECT_EQ(image->kind, ImageKind::kCubin);
  EXPECT_EQ(image->bytes.substr(0, 4),
            "\x7f"
            "ELF");
  ASSERT_EQ(image->resources.size(), 1u);
  EXPECT_EQ(image->resources[0].entry, "add_one");
}

TEST_P(NvrtcImages, ASimpleKernelHasRegistersAndNoSpills) {
  const Result<Image> image = compiler_->compile(add_one_request(ImageKind::kCubin));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  ASSERT_EQ(image->resources.size(), 1u);
  const KernelResources& kernel = image->resources[0];
  EXPECT_GT(kernel.registers, 0);
  EXPECT_EQ(kernel.local_bytes, 0);
  EXPECT_EQ(kernel.shared_bytes, 0);
  EXPECT_EQ(kernel.spill_store_bytes, 0);
  EXPECT_EQ(kernel.spill_load_bytes, 0);
}

// 1024 threads leave 64 registers each.
TEST_P(NvrtcImages, AKernelWithMoreValuesThanRegistersSpills) {
  const Result<Image> image =
      compiler_->compile(make_request("many", many_values_source(128), ImageKind::kCubin));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  ASSERT_EQ(image->resources.size(), 1u);
  const KernelResources& kernel = image->resources[0];
  EXPECT_GT(kernel.registers, 0);
  EXPECT_LE(kernel.registers, 64);
  EXPECT_GT(kernel.spill_store_bytes, 0);
  EXPECT_GT(kernel.spill_load_bytes, 0);
  EXPECT_GT(kernel.local_bytes, 0);
}

TEST_P(NvrtcImages, StaticSharedMemoryIsCountedWithoutTheSystemsPart) {
  const std::string source = std::string(kIndices) + R"(
extern "C" __global__ void shares(float* x) {
  __shared__ float part[512];
  part[threadIdx_x()] = x[threadIdx_x()];
  __syncthreads();
  x[threadIdx_x()] = part[511 - threadIdx_x()];
}
)";
  for (const char* target : {"sm_80", "sm_90a"}) {  // the system keeps 1024 bytes from sm_90 on
    const Result<Image> image =
        compiler_->compile(make_request("shares", source, ImageKind::kCubin, target));
    ASSERT_TRUE(image.ok()) << image.status().to_string();
    ASSERT_EQ(image->resources.size(), 1u);
    EXPECT_EQ(image->resources[0].shared_bytes, 2048) << target;
  }
}

TEST_P(NvrtcImages, EveryKernelOfAnImageIsReported) {
  const Result<Image> image =
      compiler_->compile(make_request("two",
                                      "extern \"C\" __global__ void first(int* x) { *x = 1; }\n"
                                      "extern \"C\" __global__ void second(int* x) { *x = 2; }\n",
                                      ImageKind::kCubin));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  ASSERT_EQ(image->resources.size(), 2u);
  const std::string names = image->resources[0].entry + " " + image->resources[1].entry;
  EXPECT_TRUE(names == "first second" || names == "second first") << names;
  for (const KernelResources& kernel : image->resources) {
    EXPECT_EQ(kernel.spill_store_bytes, 0) << kernel.entry;
  }
}

// A wgmma whose accumulators are read, or not, between its start and the wait for it.
std::string wgmma_source(const char* in_between) {
  return fmt::format(R"(
extern "C" __global__ void __launch_bounds__(128)
    product(float* x, unsigned long long a, unsigned long long b) {{
  float d[4] = {{0, 0, 0, 0}};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%0, %1, %2, %3}}, %4, %5, 1, 1, 1, 0, 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  {}
  asm volatile("wgmma.wait_group.sync.aligned 0;"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
  for (int i = 0; i < 4; ++i) x[i] = d[i];
}}
)",
                     in_between);
}

TEST_P(NvrtcImages, AWgmmaThatIsWaitedForHasNoAssemblerWarning) {
  const Result<Image> image =
      compiler_->compile(make_request("product", wgmma_source(""), ImageKind::kCubin, "sm_90a"));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  EXPECT_TRUE(image->assembler_warnings.empty()) << image->log;
}

TEST_P(NvrtcImages, AnAccumulatorReadBeforeTheWaitIsAnAssemblerWarning) {
  const Result<Image> image = compiler_->compile(
      make_request("product", wgmma_source("x[7] = d[0];"), ImageKind::kCubin, "sm_90a"));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  ASSERT_FALSE(image->assembler_warnings.empty()) << image->log;
  EXPECT_EQ(image->assembler_warnings[0].substr(0, 4), "(C75");
  EXPECT_NE(image->assembler_warnings[0].find("'product'"), std::string::npos) << image->log;
}

TEST_P(NvrtcImages, RegistersThatCannotBeMovedAreAnAssemblerWarning) {
  const std::string source = R"(
extern "C" __global__ void moves(float* x) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  x[0] = 1.0f;
}
)";
  const Result<Image> image =
      compiler_->compile(make_request("moves", source, ImageKind::kCubin, "sm_90a"));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  ASSERT_EQ(image->assembler_warnings.size(), 1u) << image->log;
  EXPECT_NE(image->assembler_warnings[0].find("'setmaxnreg' ignored"), std::string::npos)
      << image->log;
}

TEST_P(LlvmImages, CubinIsRefused) {
  EXPECT_FALSE(compiler_->can_make(ImageKind::kCubin));
  const Result<Image> image = compiler_->compile(add_one_request(ImageKind::kCubin));
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(image.status().message().find("makes only ptx"), std::string::npos)
      << image.status().message();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// The compiler runs in a thread of its own; LLVM's own thread class would end the process.
TEST_P(LlvmImages, NoMemoryForAThreadIsAnErrorAndTheProcessGoesOn) {
  ASSERT_TRUE(compiler_->compile(add_one_request()).ok());  // everything lazy is there now
  long pages = 0;
  ASSERT_TRUE(std::ifstream("/proc/self/statm") >> pages);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(pages) * 4096 + (32u << 20);  // its stack is 64 MiB
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const Result<Image> image = compiler_->compile(add_one_request());
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  ASSERT_FALSE(image.ok());
  EXPECT_NE(image.status().message().find("no thread for the compiler"), std::string::npos)
      << image.status().message();
  EXPECT_TRUE(compiler_->compile(add_one_request()).ok());
}
#endif

}  // namespace
}  // namespace lssar
