// Operands of wgmma.mma_async, as NVRTC and clang write them.
#include <gtest/gtest.h>

#include <bit>
#include <memory>
#include <string>

#include "virtual/program/operand_binder.h"
#include "virtual/program/wgmma.h"
#include "virtual/ptx/ptx_parser.h"

namespace lssar::vdev {
namespace {

std::string registers(uint32_t count, uint32_t first = 0) {
  std::string text = "{";
  for (uint32_t i = 0; i < count; ++i) {
    text += (i ? ", %r" : "%r") + std::to_string(first + i);
  }
  return text + "}";
}

std::string instruction(const std::string& shape_and_types, const std::string& operands) {
  return "wgmma.mma_async.sync.aligned." + shape_and_types + " " + operands + ";";
}

// One instruction, parsed and bound. Register %rN lies at 1000 + N, %rdN at 2000 + N, %pN at 3000 +
// N.
class Bound {
 public:
  explicit Bound(const std::string& text) {
    std::string module =
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
        ".reg .b32 %r<140>;\n.reg .b64 %rd<4>;\n.reg .pred %p<4>;\n";
    // The parser numbers registers in the order of their use.
    for (int i = 0; i < 140; ++i) module += "use %r" + std::to_string(i) + ";\n";
    for (int i = 0; i < 4; ++i) module += "use %rd" + std::to_string(i) + ";\n";
    for (int i = 0; i < 4; ++i) module += "use %p" + std::to_string(i) + ";\n";
    Result<std::unique_ptr<ParsedModule>> parsed = parse_ptx(module + text + "\n}\n");
    status = parsed.status();
    if (!parsed.ok()) return;
    module_ = std::move(*parsed);
    const ParsedKernel& kernel = *module_->kernels[0];
    const std::vector<uint64_t> addresses;
    OperandBinder binder(*module_, kernel, addresses, program_);
    std::vector<uint32_t> offsets;
    uint32_t next[kNumRegClasses] = {};
    next[static_cast<int>(RegClass::k32)] = 1000;
    next[static_cast<int>(RegClass::k64)] = 2000;
    next[static_cast<int>(RegClass::kPred)] = 3000;
    for (const RegClass c : kernel.registers) offsets.push_back(next[static_cast<int>(c)]++);
    binder.use_offsets(offsets);
    const Row row = {"", Bind::kWgmma, "", nullptr};
    const Instruction& in = kernel.instructions.back();
    fits = binder.fits(in, row);
    if (!fits) return;
    status = binder.bind(in, row, op);
    form = std::bit_cast<WgmmaForm>(op.imm);
    reads = binder.reads.size();
    writes = binder.writes.size();
  }

  bool fits = false;
  Status status;
  Op op;
  WgmmaForm form = {};
  size_t reads = 0;
  size_t writes = 0;

 private:
  std::unique_ptr<ParsedModule> module_;
  KernelProgram program_;
};

TEST(OperandWgmmaTest, BothFromSharedMemory) {
  const Bound b(
      instruction("m64n128k16.f32.bf16.bf16", registers(64) + ", %rd1, %rd2, %p3, 1, 1, 0, 1"));
  ASSERT_TRUE(b.fits) << b.status.to_string();
  ASSERT_TRUE(b.status.ok()) << b.status.to_string();
  EXPECT_EQ(b.form.n, 128);
  EXPECT_EQ(b.form.a_type, WgmmaType::kBf16);
  EXPECT_EQ(b.form.b_type, WgmmaType::kBf16);
  EXPECT_FALSE(b.form.half_sums);
  EXPECT_FALSE(b.form.negate);
  EXPECT_FALSE(b.form.a_mn_major);
  EXPECT_TRUE(b.form.b_mn_major);
  EXPECT_EQ(b.op.count, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(b.op.list[i], 1000 + i);
  EXPECT_EQ(b.op.a, 2001u);
  EXPECT_EQ(b.op.b, 2002u);
  EXPECT_EQ(b.op.c, 3003u);
  EXPECT_EQ(b.op.flags & kOpNegated, 0);
  EXPECT_EQ(b.writes, 64u);
  EXPECT_EQ(b.reads, 64u + 3);  // the sums are read too
}

TEST(OperandWgmmaTest, AFromRegisters) {
  const Bound b(instruction("m64n256k16.f32.f16.f16",
                            registers(128) + ", " + registers(4, 130) + ", %rd0, !%p0, -1, 1, 1"));
  ASSERT_TRUE(b.fits) << b.status.to_string();
  ASSERT_TRUE(b.status.ok()) << b.status.to_string();
  EXPECT_EQ(b.form.n, 256);
  EXPECT_EQ(b.form.a_type, WgmmaType::kF16);
  EXPECT_TRUE(b.form.negate);
  EXPECT_FALSE(b.form.a_mn_major);
  EXPECT_TRUE(b.form.b_mn_major);
  EXPECT_EQ(b.op.count, 128);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(b.op.list[128 + i], 1130 + i);
  EXPECT_EQ(b.op.a, kNoRegister);
  EXPECT_EQ(b.op.b, 2000u);
  EXPECT_NE(b.op.flags & kOpNegated, 0);
  EXPECT_EQ(b.reads, 128u + 4 + 2);
}

TEST(OperandWgmmaTest, TwoNegationsCancel) {
  const Bound b(
      instruction("m64n8k16.f32.bf16.bf16", registers(4) + ", %rd1, %rd2, %p0, -1, -1, 1, 0"));
  ASSERT_TRUE(b.fits && b.status.ok());
  EXPECT_FALSE(b.form.negate);
  EXPECT_TRUE(b.form.a_mn_major);
  EXPECT_FALSE(b.form.b_mn_major);
}

TEST(OperandWgmmaTest, OtherTypesHaveNoTranspositions) {
  const Bound tf32(instruction("m64n16k8.f32.tf32.tf32", registers(8) + ", %rd1, %rd2, %p0, 1, 1"));
  ASSERT_TRUE(tf32.fits && tf32.status.ok());
  EXPECT_EQ(tf32.form.a_type, WgmmaType::kTf32);
  const Bound fp8(instruction("m64n24k32.f16.e4m3.e5m2",
                              registers(6) + ", " + registers(4, 8) + ", %rd2, %p0, 1, 1"));
  ASSERT_TRUE(fp8.fits && fp8.status.ok());
  EXPECT_EQ(fp8.form.a_type, WgmmaType::kE4m3);
  EXPECT_EQ(fp8.form.b_type, WgmmaType::kE5m2);
  EXPECT_TRUE(fp8.form.half_sums);
  EXPECT_FALSE(
      Bound(instruction("m64n16k8.f32.tf32.tf32", registers(8) + ", %rd1, %rd2, %p0, 1, 1, 0, 0"))
          .fits);
}

TEST(OperandWgmmaTest, WrongCountsAndKindsDoNotFit) {
  const std::string shape = "m64n16k16.f32.f16.f16";
  for (const std::string& operands : {
           registers(7) + ", %rd1, %rd2, %p0, 1, 1, 0, 0",                     // sums
           registers(8) + ", %rd1, %rd2, %p0, 1, 1, 0",                        // one transposition
           registers(8) + ", " + registers(4, 8) + ", %rd2, %p0, 1, 1, 0, 0",  // two
           registers(8) + ", " + registers(2, 8) + ", %rd2, %p0, 1, 1, 0",     // registers of A
           registers(8) + ", %r9, %rd2, %p0, 1, 1, 0, 0",                      // 32-bit descriptor
           registers(8) + ", %rd1, " + registers(4, 8) + ", %p0, 1, 1, 0, 0",  // B in registers
           registers(8) + ", %rd1, %rd2, %r9, 1, 1, 0, 0",                     // no predicate
           registers(8) + ", %rd1, %rd2, %p0, %r9, 1, 0, 0",                   // no literal
           registers(8) + ", %rd1, %rd2, %p0",
           std::string("%r0, %rd1, %rd2, %p0, 1, 1, 0, 0"),
       }) {
    const Bound b(instruction(shape, operands));
    EXPECT_TRUE(b.status.ok()) << b.status.to_string();
    EXPECT_FALSE(b.fits) << operands;
  }
}

TEST(OperandWgmmaTest, LiteralsOutOfRangeAreNamed) {
  const std::string start = registers(8) + ", %rd1, %rd2, %p0, ";
  const Bound scale(instruction("m64n16k16.f32.f16.f16", start + "2, 1, 0, 0"));
  EXPECT_NE(scale.status.to_string().find("a scale of 2"), std::string::npos);
  const Bound transposed(instruction("m64n16k16.f32.f16.f16", start + "1, 1, 0, 3"));
  EXPECT_NE(transposed.status.to_string().find("a transposition of 3"), std::string::npos);
}

}  // namespace
}  // namespace lssar::vdev
