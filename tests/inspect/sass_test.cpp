// Machine code as nvdisasm lists it: instructions, classes, source lines, loops.
#include "inspect/sass.h"

#include <gtest/gtest.h>

namespace lssar {
namespace {

// Two nested loops: the inner one has the product, and a branch around one of its instructions.
constexpr const char* kListing = R"(
	.target	sm_90a
	.section	.nv.info,"",@"SHT_CUDA_INFO"
//--------------------- .text.outer_kernel       --------------------------
	.section	.text.outer_kernel,"ax",@progbits
outer_kernel:
.text.outer_kernel:
	//## File "f.cu", line 10
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_2:
	//## File "f.cu", line 12 inlined at "f.cu", line 20
        /*0010*/                   IADD3 R2, R2, 0x1, RZ ;
.L_x_1:
        /*0020*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4], R24 ;
        /*0030*/              @!P1 BRA `(.L_x_3) ;
        /*0040*/                   MUFU.EX2 R3, R3 ;
.L_x_3:
	//## File "f.cu", line 13
        /*0050*/                   ULOP3.LUT UR4, UR4, 0x1, URZ, 0xc0, !UPT ;
        /*0060*/               @P0 BRA `(.L_x_1) ;
        /*0070*/               @P2 BRA `(.L_x_2) ;
        /*0080*/                   EXIT ;
.L_x_4:
        /*0090*/                   BRA `(.L_x_4);
.L_x_5:

//--------------------- .text.second       --------------------------
	.section	.text.second,"ax",@progbits
second:
        /*0000*/                   EXIT ;
)";

TEST(Sass, ReadsKernelsInstructionsAndLines) {
  const auto kernels = parse_sass(kListing);
  ASSERT_TRUE(kernels.ok()) << kernels.status().message();
  ASSERT_EQ(kernels->size(), 2u);
  const SassKernel& kernel = (*kernels)[0];
  EXPECT_EQ(kernel.name, "outer_kernel");
  ASSERT_EQ(kernel.instructions.size(), 10u);
  EXPECT_EQ(kernel.instructions[0].line, 10);
  EXPECT_EQ(kernel.instructions[1].line, 12);
  EXPECT_EQ(kernel.instructions[5].line, 13);
  EXPECT_EQ(kernel.instructions[2].opcode, "HGMMA.64x64x16.F32.BF16");
  EXPECT_EQ(kernel.instructions[3].guard, "@!P1");
  EXPECT_EQ(kernel.instructions[7].address, 0x70u);
  EXPECT_EQ(kernel.instructions[3].text, "@!P1 BRA `(.L_x_3)");
  EXPECT_EQ(kernel.counts()[size_t(SassClass::kControl)], 5u);
  EXPECT_EQ((*kernels)[1].name, "second");
  EXPECT_TRUE((*kernels)[1].loops.empty());
}

TEST(Sass, FindsNestedLoopsAndTheHotOne) {
  const auto kernels = parse_sass(kListing);
  ASSERT_TRUE(kernels.ok());
  const std::vector<SassLoop>& loops = (*kernels)[0].loops;
  ASSERT_EQ(loops.size(), 2u);  // the endless one behind the end, which nothing reaches, is none
  const SassLoop &outer = loops[0], &inner = loops[1];
  EXPECT_EQ(outer.first_address, 0x10u);
  EXPECT_EQ(outer.last_address, 0x70u);
  EXPECT_EQ(outer.depth, 1);
  EXPECT_FALSE(outer.is_hot);
  EXPECT_EQ(outer.own, (std::vector<uint32_t>{1, 7}));
  EXPECT_EQ(inner.first_address, 0x20u);
  EXPECT_EQ(inner.last_address, 0x60u);
  EXPECT_EQ(inner.depth, 2);
  EXPECT_TRUE(inner.is_hot);
  EXPECT_EQ(inner.own, (std::vector<uint32_t>{2, 3, 4, 5, 6}));
  // A branch goes around the special function.
  EXPECT_EQ(inner.at_most[size_t(SassClass::kSpecial)], 1u);
  EXPECT_EQ(inner.every_iteration[size_t(SassClass::kSpecial)], 0u);
  EXPECT_EQ(inner.every_iteration[size_t(SassClass::kTensor)], 1u);
}

TEST(Sass, KnowsClassesOfUniformAndSuffixedOpcodes) {
  EXPECT_EQ(sass_class("HMMA.16816.F32.BF16"), SassClass::kTensor);
  EXPECT_EQ(sass_class("UIADD3"), SassClass::kInteger);
  EXPECT_EQ(sass_class("UTMALDG.4D"), SassClass::kGlobal);
  EXPECT_EQ(sass_class("R2UR"), SassClass::kMove);
  EXPECT_EQ(sass_class("UNHEARD.OF"), SassClass::kOther);
  EXPECT_STREQ(sass_class_name(SassClass::kOther), "other");
}

TEST(Sass, TextWithoutInstructionsIsAnError) {
  EXPECT_FALSE(parse_sass("").ok());
  EXPECT_FALSE(parse_sass(".section\t.text.k,\"ax\"\nk:\n").ok());
}

}  // namespace
}  // namespace lssar
