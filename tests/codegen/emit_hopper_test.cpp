// The emitted source of Variant::kHopper as text: what it asserts of the host's figures, its
// wrappers of wgmma, and that it is deterministic.
#include <algorithm>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "codegen/emit.h"
#include "codegen/launch_step.h"
#include "codegen/wgmma_source.h"
#include "templates/kernels/params.cuh"

namespace lssar {
namespace {

constexpr Pass kPasses[] = {Pass::kForward, Pass::kForwardTrain, Pass::kBackward};

Target hopper() { return target_from_name("sm_90a").value(); }

Problem make_problem(Pass pass, int dim = 64, DType dtype = DType::kBf16, int p = 15) {
  Problem problem;
  problem.causal = true;
  problem.pass = pass;
  problem.dtype = dtype;
  problem.head_dim = problem.head_dim_v = dim;
  problem.p = p;
  return problem;
}

KernelSource emit(const Problem& problem, DqMode mode = DqMode::kSplit,
                  const Target& target = hopper()) {
  auto kernel = emit_kernel(problem, default_schedule(problem, target, mode), target);
  EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
  return kernel.ok() ? *kernel : KernelSource{};
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(EmitHopper, AssertsTheLayoutOfItsParameters) {
  const std::string tma =
      fmt::format("static_assert(sizeof(TmaParams) == {},", sizeof(lssar_device::TmaParams));
  const std::string plain = fmt::format("static_assert(sizeof(AttentionParams) == {},",
                                        sizeof(lssar_device::AttentionParams));
  for (Pass pass : kPasses) {
    const std::string source = emit(make_problem(pass)).source;
    EXPECT_EQ(count(source, tma), 1) << pass_name(pass);
    EXPECT_EQ(count(source, plain), 1) << pass_name(pass);
    const std::string portable =
        emit(make_problem(pass), DqMode::kSplit, target_from_name("sm_90").value()).source;
    EXPECT_EQ(count(portable, "sizeof(TmaParams)"), 0) << pass_name(pass);
  }
}

TEST(EmitHopper, AssertsTheSharedMemoryOfEveryStepWithMaps) {
  for (Pass pass : kPasses) {
    const KernelSource kernel = emit(make_problem(pass));
    for (const LaunchStep& step : kernel.steps) {
      if (step.maps.empty()) continue;
      EXPECT_GT(step.shared_bytes, 0) << step.entry;
      EXPECT_EQ(count(kernel.source, fmt::format("Shape::kSharedBytes == {},", step.shared_bytes)),
                1)
          << step.entry;
    }
  }
}

// What cuTensorMapEncodeTiled and the parameters' arrays have room for.
TEST(EmitHopper, MapsFit) {
  constexpr int kMaxBox = 256, kSwizzleBytes = 128;
  for (Pass pass : kPasses) {
    for (DqMode mode : {DqMode::kSplit, DqMode::kAtomic}) {
      for (int dim = 8; dim <= 256; dim += 8) {
        const Problem problem = make_problem(pass, dim);
        size_t total = 0, with_maps = 0;
        for (const LaunchStep& step : emit(problem, mode).steps) {
          total += step.maps.size();
          with_maps += step.maps.empty() ? 0 : 1;
          EXPECT_LE(step.maps.size(), static_cast<size_t>(lssar_device::kMaxTensorMaps));
          for (const MapSpec& map : step.maps) {
            EXPECT_TRUE(map.box_rows >= 1 && map.box_rows <= kMaxBox) << step.entry;
            EXPECT_TRUE(map.box_cols >= 1 && map.box_cols <= kMaxBox) << step.entry;
            EXPECT_TRUE(!map.swizzled || map.box_cols * 2 <= kSwizzleBytes) << step.entry;
          }
        }
        EXPECT_LE(total, static_cast<size_t>(kMaxKernelMaps));
        const bool is_hopper =
            default_schedule(problem, hopper(), mode).variant == Variant::kHopper;
        const size_t tiled = pass == Pass::kBackward && mode == DqMode::kSplit ? 2 : 1;
        EXPECT_EQ(with_maps, is_hopper ? tiled : 0) << to_string(problem);
      }
    }
  }
}

TEST(EmitHopper, WrapsEveryShapeOfWgmmaOnce) {
  for (Pass pass : kPasses) {
    for (int dim : {40, 64, 96, 128, 256}) {
      for (DType dtype : {DType::kBf16, DType::kFp16}) {
        const Problem problem = make_problem(pass, dim, dtype);
        const std::string source = emit(problem).source;
        const auto shapes = wgmma_shapes(problem, default_schedule(problem, hopper()));
        ASSERT_FALSE(shapes.empty());
        for (const WgmmaShape& shape : shapes)
          EXPECT_EQ(
              count(source, fmt::format("struct Wgmma<{}, {}> {{",
                                        shape.dtype == DType::kFp16 ? "Fp16" : "Bf16", shape.cols)),
              1)
              << to_string(problem) << " " << shape.cols;
        EXPECT_EQ(count(source, "struct Wgmma<"), static_cast<int>(shapes.size()))
            << to_string(problem);
      }
    }
  }
}

TEST(EmitHopper, IsTheSameEveryTime) {
  for (Pass pass : kPasses)
    for (DqMode mode : {DqMode::kSplit, DqMode::kAtomic})
      EXPECT_EQ(emit(make_problem(pass), mode).source, emit(make_problem(pass), mode).source);
}

TEST(EmitHopper, HoldsOnlyTheTemplatesItReaches) {
  const std::string forward = emit(make_problem(Pass::kForward)).source;
  EXPECT_NE(forward.find("// ---- kernels/hopper_forward.cuh"), std::string::npos);
  EXPECT_EQ(forward.find("// ---- kernels/hopper_backward"), std::string::npos);
  EXPECT_EQ(forward.find("// ---- kernels/forward.cuh"), std::string::npos);
  EXPECT_EQ(forward.find("#include"), std::string::npos);
  const std::string atomic = emit(make_problem(Pass::kBackward), DqMode::kAtomic).source;
  EXPECT_NE(atomic.find("// ---- kernels/hopper_backward_dkdv.cuh"), std::string::npos);
  EXPECT_EQ(atomic.find("// ---- kernels/hopper_backward_dq.cuh"), std::string::npos);
}

TEST(EmitHopper, PowersDifferInTheChainAndItsConstantsOnly) {
  const auto lines = [](Pass pass, int p) {
    std::multiset<std::string> result;
    std::istringstream in(
        source_without_header(emit(make_problem(pass, 64, DType::kBf16, p)).source));
    for (std::string line; std::getline(in, line);) result.insert(line);
    return result;
  };
  for (Pass pass : kPasses) {
    const auto seven = lines(pass, 7), fifteen = lines(pass, 15);
    std::vector<std::string> differing;
    std::set_symmetric_difference(seven.begin(), seven.end(), fifteen.begin(), fifteen.end(),
                                  std::back_inserter(differing));
    EXPECT_FALSE(differing.empty());
    for (const std::string& line : differing) {
      const bool is_chain =
          line.starts_with("    const float u") || line.starts_with("    return u");
      const bool is_constant = line.find("kPower = ") != std::string::npos ||
                               line.find("kCutWeight = ") != std::string::npos ||
                               line.find("kMostWeight = ") != std::string::npos;
      EXPECT_TRUE(is_chain || is_constant) << line;
    }
  }
}

}  // namespace
}  // namespace lssar
