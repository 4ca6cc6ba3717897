// Machine code of CPU kernels: classes and loops of a listing, and what the system's objdump lists.
#include "inspect/x86_code.h"

#include <gtest/gtest.h>

namespace lssar {
namespace {

uint32_t count(const SassCounts& counts, SassClass one) { return counts[size_t(one)]; }

// A loop of products in a loop that also evaluates, as binutils lists them.
constexpr const char* kX86Listing = R"(
kernel.o:     file format elf64-x86-64

Disassembly of section .text:

0000000000000000 <lssar_forward>:
       0:	push   rbp
       1:	mov    rbp,rsp
      10:	vxorps xmm0,xmm0,xmm0
      14:	vmovups ymm1,YMMWORD PTR [rsi]
      18:	vbroadcastss ymm2,DWORD PTR [rdi]
      1c:	vfmadd231ps ymm0,ymm1,ymm2
      20:	vfmadd231ps ymm3,ymm1,YMMWORD PTR [rsi+0x20]
      24:	add    rsi,0x40
      28:	jne    14 <lssar_forward+0x14>
      2c:	vmovups YMMWORD PTR [rsp+0x40],ymm0
      30:	vpermilps ymm4,ymm0,0x1b
      34:	vcvtph2ps ymm4,xmm4
      38:	vmaxps ymm4,ymm4,ymm0
      3c:	vpslld ymm4,ymm4,0x17
      40:	jmp    48 <lssar_forward+0x48>
      44:	nop
      48:	dec    rdx
      4c:	jg     10 <lssar_forward+0x10>
      50:	ret

0000000000000060 <add_rows(float const*, int)>:
      60:	vaddps ymm0,ymm0,ymm1
      64:	jmp    100 <memset>
)";

TEST(X86Code, FindsFunctionsClassesAndLoops) {
  const Result<std::vector<SassKernel>> kernels = parse_x86(kX86Listing);
  ASSERT_TRUE(kernels.ok()) << kernels.status().to_string();
  ASSERT_EQ(kernels->size(), 2u);
  const SassKernel& forward = (*kernels)[0];
  EXPECT_EQ(forward.name, "lssar_forward");
  EXPECT_EQ((*kernels)[1].name, "add_rows(float const*, int)");
  ASSERT_EQ(forward.instructions.size(), 18u);  // without the padding after a jump
  const SassCounts counts = forward.counts();
  EXPECT_EQ(count(counts, SassClass::kFma), 2u);
  EXPECT_EQ(count(counts, SassClass::kGlobal), 2u);  // a load and a broadcast
  EXPECT_EQ(count(counts, SassClass::kLocal), 1u);   // the store to the stack
  EXPECT_EQ(count(counts, SassClass::kExchange), 1u);
  EXPECT_EQ(count(counts, SassClass::kConvert), 1u);
  EXPECT_EQ(count(counts, SassClass::kFloat), 2u);    // xor and maximum
  EXPECT_EQ(count(counts, SassClass::kInteger), 3u);  // add, dec and the shift
  ASSERT_EQ(forward.loops.size(), 2u);
  const SassLoop& outer = forward.loops[0];
  const SassLoop& inner = forward.loops[1];
  EXPECT_EQ(inner.first_address, 0x14u);
  EXPECT_EQ(inner.last_address, 0x28u);
  EXPECT_TRUE(inner.is_hot);
  EXPECT_EQ(count(inner.every_iteration, SassClass::kFma), 2u);
  EXPECT_EQ(inner.depth, 2);
  EXPECT_FALSE(outer.is_hot);
  EXPECT_EQ(count(outer.every_iteration, SassClass::kFma), 0u);
  EXPECT_EQ(count(outer.at_most, SassClass::kLocal), 1u);
  EXPECT_TRUE((*kernels)[1].loops.empty());
}

TEST(X86Code, TextWithoutInstructionsIsAnError) {
  EXPECT_FALSE(parse_x86("kernel.o:     file format elf64-x86-64\n").ok());
}

TEST(X86Code, WhatIsNoObjectIsAnError) {
  const Result<std::string> listing = disassemble_object("no ELF");
  EXPECT_TRUE(listing.status().code() == StatusCode::kIoError ||
              listing.status().code() == StatusCode::kMissing)
      << listing.status().to_string();
}

}  // namespace
}  // namespace lssar
