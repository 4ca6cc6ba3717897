// The orders of modifiers that ptxas takes are taken: data/modifier_orders.txt has them, as
// modifier_orders.py found them out.
#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "modifier_orders.h"
#include "tests/virtual/ptx_fixture.h"
#include "virtual/program/opcode_order.h"
#include "virtual/program/opcode_table.h"
#include "virtual/run/module.h"

namespace lssar::test {
namespace {

using vdev::in_order_of;
using vdev::opcode_table;

struct Ordered {
  std::string opcode;               // in the order of the table
  std::string operands;             // up to the semicolon
  std::vector<std::string> others;  // the opcode in other orders
};
struct Evidence {
  std::string head;  // of a module, up to the instructions of its kernel k
  std::vector<Ordered> instructions;
};

// "add.rn.f32", "21" -> "add.f32.rn"
std::string reordered(const std::string& opcode, const std::string& order) {
  std::vector<std::string> words;
  std::istringstream all(opcode);
  for (std::string word; std::getline(all, word, '.');) words.push_back(word);
  std::string text = words[0];
  for (const char digit : order)
    text += "." + words.at(std::stoul(std::string(1, digit), nullptr, 16));
  return text;
}

const Evidence& evidence() {
  static const Evidence* const made = [] {
    auto* e = new Evidence;
    std::istringstream file{kModifierOrders};
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      if (line.starts_with("| ")) {
        e->head += line.substr(2) + "\n";
        continue;
      }
      Ordered& ordered = e->instructions.emplace_back();
      const size_t end = line.find(';') + 1;
      const size_t space = line.find(' ');
      ordered.opcode = line.substr(0, std::min(space, end - 1));  // some have no operands
      ordered.operands = line.substr(ordered.opcode.size(), end - ordered.opcode.size());
      std::istringstream orders(line.substr(end));
      for (std::string order; orders >> order;) {
        ordered.others.push_back(reordered(ordered.opcode, order));
      }
    }
    return e;
  }();
  return *made;
}

TEST(ModifierOrderTest, EveryOrderThatPtxasTakesIsTaken) {
  ASSERT_GT(evidence().instructions.size(), 400u);
  std::string text = evidence().head;
  for (const Ordered& ordered : evidence().instructions) {
    text += ordered.opcode + ordered.operands + "\n";
    for (const std::string& other : ordered.others) text += other + ordered.operands + "\n";
  }
  VirtualOptions options;
  options.target = *target_from_name("sm_90a");
  Image image;
  image.bytes = text + "ret;\n}\n";
  const auto device = make_virtual_device(options);
  const auto module = device->load(image);
  ASSERT_TRUE(module.ok()) << module.status().to_string();
  const auto function = (*module)->function("k");
  ASSERT_TRUE(function.ok()) << function.status().to_string();
  const Status& refusal = dynamic_cast<const vdev::Function&>(**function).program().refusal;
  EXPECT_TRUE(refusal.ok()) << refusal.message();
}

// Where only words change places whose order means nothing, it is the same instruction.
TEST(ModifierOrderTest, AnotherOrderIsTheSameInstruction) {
  const auto& table = opcode_table(SimdLevel::kPlain);
  for (const Ordered& ordered : evidence().instructions) {
    const auto rows = table.find(ordered.opcode);
    ASSERT_FALSE(rows.empty()) << ordered.opcode;
    for (const std::string& other : ordered.others) {
      const std::string found = table.in_row_order(other);
      EXPECT_EQ(found.size(), other.size()) << other;
      EXPECT_FALSE(table.find(found).empty()) << other;
      // With types in another order ptxas takes it for another instruction.
      if (table.find(found) != rows) {
        EXPECT_NE(found, ordered.opcode) << other;
      }
    }
  }
}

TEST(ModifierOrderTest, TheWordsOfTheNameAndThoseOfOneClassKeepTheirOrder) {
  EXPECT_EQ(in_order_of("cvt.rn[.ftz].f16.f32", "cvt.f16.ftz.f32.rn"), "cvt.rn.ftz.f16.f32");
  EXPECT_EQ(in_order_of("cvt.rn.f16.f32", "cvt.rn.f32.f16"), std::nullopt);
  EXPECT_EQ(in_order_of("mul.lo.u32", "mul.u32.lo"), std::nullopt);
  EXPECT_EQ(in_order_of("cp.async.bulk.global.shared::cta.bulk_group",
                        "cp.async.bulk.shared::cta.global.bulk_group"),
            std::nullopt);
  EXPECT_EQ(in_order_of("ld.global.v2.u32", "ld.v2.u32.global"), "ld.global.v2.u32");
  EXPECT_EQ(in_order_of("ld.global.v2.u32", "ld.v2.global.u32"), std::nullopt);
  EXPECT_EQ(in_order_of("ld.global.v2.u32", "ld.u32.v2.global"), std::nullopt);
  EXPECT_EQ(in_order_of("add[.rn].f32", "add.rn"), std::nullopt);
  EXPECT_EQ(in_order_of("add[.rn].f32", "add.f32.rn.rn"), std::nullopt);
  EXPECT_EQ(in_order_of("add[.rn].f32", "add."), std::nullopt);
}

// As CuTe writes ldmatrix and stmatrix; with the flags in another order, too.
TEST(ModifierOrderTest, MatricesInCutesOrderAreTheSame) {
  const auto transposed = [](const std::string& load, const std::string& store) {
    const auto device = open_device(SimdLevel::kAuto);
    Buffer<uint32_t> out(*device, std::vector<uint32_t>(128, 0));
    const std::string body = fmt::format(
        ".reg .b32 %t, %a, %x, %r<4>; .reg .b64 %p, %o; .shared .align 128 .b8 s[512];\n"
        "ld.param.u64 %p, [p0]; mov.u32 %t, %tid.x; mov.u32 %a, s; shl.b32 %x, %t, 4;\n"
        "add.u32 %a, %a, %x; mad.lo.u32 %x, %t, 65537, 65536;\n"
        "st.shared.v4.b32 [%a], {{%x, %x, %t, %t}};\nbar.warp.sync -1;\n"
        "{} {{%r0, %r1, %r2, %r3}}, [%a];\nbar.warp.sync -1;\n{} [%a], {{%r1, %r0, %r2, %r3}};\n"
        "bar.warp.sync -1;\nld.shared.v4.b32 {{%r0, %r1, %r2, %r3}}, [%a];\n"
        "mul.wide.u32 %o, %t, 16; add.s64 %p, %p, %o;\n"
        "st.global.v4.b32 [%p], {{%r0, %r1, %r2, %r3}}; ret;",
        load, store);
    const Status status =
        run(*device, kernel_text(".param .u64 p0", body, "", "sm_90"), {1, 32}, {out.address()});
    EXPECT_TRUE(status.ok()) << status.to_string();
    std::vector<uint32_t> values;
    for (size_t i = 0; i < 128; ++i) values.push_back(out[i]);
    return values;
  };
  const auto expected = transposed("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
                                   "stmatrix.sync.aligned.m8n8.x4.shared.b16");
  EXPECT_NE(expected, std::vector<uint32_t>(128, 0));
  EXPECT_EQ(transposed("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16",
                       "stmatrix.sync.aligned.x4.m8n8.shared.b16"),
            expected);
  EXPECT_EQ(transposed("ldmatrix.b16.aligned.trans.shared.m8n8.sync.x4",
                       "stmatrix.shared.b16.x4.sync.m8n8.aligned"),
            expected);
}

}  // namespace
}  // namespace lssar::test
