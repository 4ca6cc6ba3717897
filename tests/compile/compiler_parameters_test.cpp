// Structs that kernels of the LLVM compiler take by value: used in place, as __grid_constant__
// would have it, or copied where a kernel writes to them.
#include <string>

#include "tests/compile/compiler_fixture.h"

namespace lssar {
namespace {

constexpr char kStruct[] = R"(
struct alignas(64) Map { unsigned long long words[16]; };
struct Params { Map maps[2]; float* out; int n; };
)";

class LlvmParameters : public CompilerTest {
 protected:
  // The PTX of struct Params' kernel with this body; empty where it does not compile.
  std::string ptx_of(const std::string& body) const {
    const Result<Image> image = compiler_->compile(
        make_request("kernel", std::string(kIndices) + kStruct +
                                   "extern \"C\" __global__ void kernel(Params p) {" + body + "}"));
    EXPECT_TRUE(image.ok()) << image.status().to_string();
    return image.ok() ? image->bytes : "";
  }
};

INSTANTIATE_TEST_SUITE_P(Compilers, LlvmParameters, ::testing::Values(CompilerChoice::kLlvm),
                         [](const auto& tested) { return compiler_choice_name(tested.param); });

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_P(LlvmParameters, AnAddressThatEscapesIsTheParametersOwn) {
  const std::string ptx = ptx_of(R"(asm volatile("prefetch [%0];" ::"l"(&p.maps[1]));)");
  EXPECT_FALSE(contains(ptx, ".local")) << ptx;
  EXPECT_TRUE(contains(ptx, "cvta.param.u64")) << ptx;
  EXPECT_TRUE(contains(ptx, ", 128;")) << "maps[1] is 128 bytes on\n" << ptx;
}

TEST_P(LlvmParameters, ItsFieldsAreStillReadAsParameters) {
  const std::string ptx = ptx_of(
      R"(asm volatile("prefetch [%0];" ::"l"(&p.maps[0]) : "memory");
         p.out[threadIdx_x()] = static_cast<float>(p.n);)");
  EXPECT_TRUE(contains(ptx, "[kernel_param_0+256]")) << "p.out\n" << ptx;
  EXPECT_TRUE(contains(ptx, "[kernel_param_0+264]")) << "p.n\n" << ptx;
  EXPECT_FALSE(contains(ptx, "ld.u")) << "a generic load\n" << ptx;
  EXPECT_FALSE(contains(ptx, ".local")) << ptx;
}

TEST_P(LlvmParameters, AChoiceOfAddressesNeedsNoCopy) {
  const std::string ptx = ptx_of(
      R"(const Map* map = p.n == 3 ? &p.maps[1] : &p.maps[0];
         asm volatile("prefetch [%0];" ::"l"(map));)");
  EXPECT_FALSE(contains(ptx, ".local")) << ptx;
  EXPECT_TRUE(contains(ptx, "cvta.param.u64")) << ptx;
}

TEST_P(LlvmParameters, WhatAKernelWritesToIsCopied) {
  const std::string ptx = ptx_of(
      R"(p.maps[0].words[threadIdx_x() & 15] = 1;
         asm volatile("prefetch [%0];" ::"l"(&p.maps[0]) : "memory");)");
  EXPECT_TRUE(contains(ptx, ".local")) << ptx;
  EXPECT_FALSE(contains(ptx, "cvta.param")) << ptx;
}

}  // namespace
}  // namespace lssar
