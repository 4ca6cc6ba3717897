// The steps between text and execution: opcode patterns, the order of blocks, register places.
#include <gtest/gtest.h>

#include <set>

#include "tests/virtual/ptx_fixture.h"
#include "virtual/program/control_flow.h"
#include "virtual/program/decoder.h"
#include "virtual/program/handler_sets.h"
#include "virtual/program/opcode_table.h"
#include "virtual/ptx/ptx_parser.h"

namespace lssar::test {
namespace {

using namespace vdev;  // NOLINT: the tested namespace

TEST(OpcodePatternTest, OptionalRequiredAndLiteralParts) {
  EXPECT_TRUE(opcode_matches("add[.rn].(u32|s32)", "add.u32"));
  EXPECT_TRUE(opcode_matches("add[.rn].(u32|s32)", "add.rn.s32"));
  EXPECT_FALSE(opcode_matches("add[.rn].(u32|s32)", "add.rn"));
  EXPECT_FALSE(opcode_matches("add[.rn].(u32|s32)", "add.s32.rn"));
  EXPECT_FALSE(opcode_matches("add[.rn].(u32|s32)", "add.u32x"));
  EXPECT_FALSE(opcode_matches("add[.rn].(u32|s32)", "add.u"));
}

TEST(OpcodePatternTest, AlternativesThatBeginAlikeAreTriedInTurn) {
  EXPECT_TRUE(opcode_matches("ld[.shared|.shared::cta].u32", "ld.shared::cta.u32"));
  EXPECT_TRUE(opcode_matches("a[.b][.b].c", "a.b.c"));
  EXPECT_TRUE(opcode_matches("(f32|f32x2)", "f32x2"));
}

TEST(OpcodePatternTest, ModifiersAreWholeWords) {
  EXPECT_TRUE(has_modifier("ld.global.v4.u32", ".v4"));
  EXPECT_TRUE(has_modifier("shfl.sync.up", ".up"));
  EXPECT_FALSE(has_modifier("ld.shared::cta.u32", ".shared"));
  EXPECT_FALSE(has_modifier("setp.ltu.f32", ".lt"));
}

// The tables of all levels that were built, including those that this machine cannot run.
TEST(OpcodeTableTest, EveryLevelHasTheSameRows) {
  const HandlerSet& plain = opcode_table(SimdLevel::kPlain).handlers();
  for (const SimdLevel level : {SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (handler_set(level) == nullptr) continue;  // LSSAR_NATIVE_SIMD
    const HandlerSet& other = *handler_set(level);
    ASSERT_EQ(other.num_spans, plain.num_spans);
    for (uint32_t s = 0; s < plain.num_spans; ++s) {
      ASSERT_EQ(other.spans[s]->count, plain.spans[s]->count);
      for (uint32_t i = 0; i < plain.spans[s]->count; ++i) {
        EXPECT_STREQ(other.spans[s]->rows[i].opcode, plain.spans[s]->rows[i].opcode);
      }
    }
  }
}

TEST(OpcodeTableTest, NoRowHidesAnother) {
  const HandlerSet& set = opcode_table(SimdLevel::kPlain).handlers();
  std::set<std::string> seen;
  for (uint32_t s = 0; s < set.num_spans; ++s) {
    for (uint32_t i = 0; i < set.spans[s]->count; ++i) {
      const Row& row = set.spans[s]->rows[i];
      const std::string key = std::string(row.opcode) + " " + row.operands + " " +
                              std::to_string(static_cast<int>(row.bind));
      EXPECT_TRUE(seen.insert(key).second) << key;
    }
  }
}

// Blocks by their first instruction, in order.
std::vector<uint32_t> order_of(const std::vector<InstructionFlow>& flow) {
  std::vector<uint32_t> order;
  for (const FlowBlock& block : build_control_flow(flow).blocks) order.push_back(block.begin);
  return order;
}
InstructionFlow jump(uint32_t target, bool guarded) {
  InstructionFlow f;
  f.terminator = Terminator::kJump;
  f.target = target;
  f.guarded = guarded;
  return f;
}
InstructionFlow leave() {
  InstructionFlow f;
  f.terminator = Terminator::kExit;
  return f;
}

TEST(ControlFlowTest, AJoinComesAfterAPathLaidOutBehindIt) {
  // 0: branch to 3 (cold); 1: join; 2: exit; 3: cold, back to 1.
  EXPECT_EQ(order_of({jump(3, true), {}, leave(), {}, jump(1, false)}),
            (std::vector<uint32_t>{0, 3, 1}));
}

TEST(ControlFlowTest, ALoopsExitComesAfterItsBody) {
  // 0; 1: leave the loop to 4; 2; 3: back to 1; 4: exit.
  EXPECT_EQ(order_of({{}, jump(4, true), {}, jump(1, false), leave()}),
            (std::vector<uint32_t>{0, 1, 2, 4}));
  // The same loop with its exit laid out inside.
  EXPECT_EQ(order_of({{}, jump(3, true), leave(), {}, jump(1, false)}),
            (std::vector<uint32_t>{0, 1, 3, 2}));
}

TEST(ControlFlowTest, UnreachableBlocksAreDropped) {
  EXPECT_EQ(order_of({jump(2, false), {}, leave()}), (std::vector<uint32_t>{0, 2}));
}

std::unique_ptr<KernelProgram> decode(const std::string& text,
                                      std::unique_ptr<ParsedModule>& module) {
  auto parsed = parse_ptx(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().to_string();
  module = std::move(*parsed);
  auto program = decode_kernel(*module, *module->kernels[0], opcode_table(SimdLevel::kPlain));
  EXPECT_TRUE(program->refusal.ok()) << program->refusal.to_string();
  return program;
}

TEST(RegisterLayoutTest, AChainOfValuesNeedsFewPlaces) {
  std::string body = ".reg .b32 %r<1001>; mov.u32 %r0, %tid.x;\n";
  for (int i = 0; i < 1000; ++i) {
    body += "add.u32 %r" + std::to_string(i + 1) + ", %r" + std::to_string(i) + ", 1;\n";
  }
  std::unique_ptr<ParsedModule> module;
  const auto program = decode(kernel_text("", body + "ret;"), module);
  EXPECT_LE(program->register_bytes, 2048u);
  EXPECT_EQ(program->constants.size(), 1u) << "equal immediates are one register";
}

TEST(RegisterLayoutTest, ARegisterReadBeforeItIsWrittenIsPoison) {
  for (const SimdLevel level : levels()) {
    const auto device = open_device(level);
    Buffer<uint32_t> out(*device, {0});
    const Status status = run(*device,
                              kernel_text(".param .u64 p0",
                                          ".reg .b64 %p; .reg .b32 %x; ld.param.u64 %p, [p0];\n"
                                          "st.global.u32 [%p], %x; ret;"),
                              {1, 1}, {out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    EXPECT_EQ(out[0], 0xffffffffu);
  }
}

}  // namespace
}  // namespace lssar::test
