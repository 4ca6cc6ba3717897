// Operands of the bulk instructions: every form of the PTX ISA, as NVRTC and clang write them.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "virtual/program/bulk_operands.h"
#include "virtual/program/operand_binder.h"
#include "virtual/ptx/ptx_parser.h"

namespace lssar::vdev {
namespace {

// One instruction, parsed and bound. Registers %rN, %rdN and %rsN lie at 1000, 2000, 3000 + N.
class Bound {
 public:
  explicit Bound(const std::string& instruction) {
    std::string text =
        ".version 8.0\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 first, .param .align 64 .b8 map[128])\n{\n"
        ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .b16 %rs<9>;\n"
        ".shared .align 1024 .b8 tile[4096];\n";
    // The parser numbers registers in the order of their use.
    for (const char* kind : {"%r", "%rd", "%rs"}) {
      for (int i = 0; i < 9; ++i) text += "use " + (kind + std::to_string(i)) + ";\n";
    }
    text += instruction + "\n}\n";
    Result<std::unique_ptr<ParsedModule>> module = parse_ptx(text);
    status_ = module.status();
    if (!module.ok()) return;
    module_ = std::move(*module);
    const ParsedKernel& kernel = *module_->kernels[0];
    std::vector<uint64_t> addresses(module_->variables.size(), 0x8000);
    OperandBinder binder(*module_, kernel, addresses, program_);
    std::vector<uint32_t> offsets;
    uint32_t next[kNumRegClasses] = {4000, 3000, 1000, 2000};
    for (const RegClass c : kernel.registers) offsets.push_back(next[static_cast<int>(c)]++);
    binder.use_offsets(offsets);
    const Row row = {"", Bind::kBulk, "", nullptr};
    fits_ = binder.fits(kernel.instructions.back(), row);
    if (!fits_) return;
    status_ = binder.bind(kernel.instructions.back(), row, op_);
    reads_ = binder.reads.size();
    if (!status_.ok()) return;
    std::memcpy(&form, &op_.imm, sizeof(form));
    std::memcpy(&operands, op_.list, sizeof(operands));
  }

  bool fits() const { return fits_; }
  const Status& status() const { return status_; }
  size_t reads() const { return reads_; }
  // In shared memory, of an address that is a variable's and an offset.
  int64_t place(const BulkAddress& address) const {
    for (const Constant& c : program_.constants) {
      if (c.offset != address.base) continue;
      EXPECT_TRUE(c.in_shared);
      return static_cast<int64_t>(c.bits) + address.offset;
    }
    return -1;
  }

  BulkForm form = {};
  BulkOperands operands = {};

 private:
  std::unique_ptr<ParsedModule> module_;
  KernelProgram program_;
  Op op_;
  Status status_;
  bool fits_ = false;
  size_t reads_ = 0;
};

void expect_address(const BulkAddress& address, uint32_t base, int64_t offset, bool wide) {
  EXPECT_EQ(address.base, base);
  EXPECT_EQ(address.offset, offset);
  EXPECT_EQ(address.wide != 0, wide);
}

TEST(BulkOperandsTest, LoadWithMulticastAndCacheHint) {
  const Bound b(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster."
      "L2::cache_hint [%r1+16], [%rd2+-32], %r3, [%r4], %rs5, %rd6;");
  ASSERT_TRUE(b.fits());
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(b.form.kind, BulkKind::kLoad);
  EXPECT_EQ(b.form.rank, 0);
  EXPECT_TRUE(b.form.multicast);
  expect_address(b.operands.destination, 1001, 16, false);
  expect_address(b.operands.source, 2002, -32, true);
  expect_address(b.operands.barrier, 1004, 0, false);
  EXPECT_EQ(b.operands.bytes, 1003u);
  EXPECT_EQ(b.operands.block_mask, 3005u);
  EXPECT_EQ(b.operands.cache_policy, 2006u);
  EXPECT_EQ(b.reads(), 6u);
}

TEST(BulkOperandsTest, LoadIntoTheOwnBlockByNameAndByLiteral) {
  const Bound b(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+256], [%rd1], 64, "
      "[tile];");
  ASSERT_TRUE(b.fits());
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(b.place(b.operands.destination), 0x8100);
  EXPECT_EQ(b.place(b.operands.barrier), 0x8000);
  EXPECT_NE(b.operands.bytes, kNoRegister);
  EXPECT_EQ(b.operands.block_mask, kNoRegister);
  EXPECT_EQ(b.operands.cache_policy, kNoRegister);
}

TEST(BulkOperandsTest, SharedAddressesIn64BitRegisters) {
  const Bound b(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%rd1+8], [%rd2], %r3, "
      "[%rd4];");
  ASSERT_TRUE(b.fits());
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  expect_address(b.operands.destination, 2001, 8, true);
  expect_address(b.operands.barrier, 2004, 0, true);
}

TEST(BulkOperandsTest, CopyBetweenBlocks) {
  const Bound b(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r2], %r3, "
      "[%r4];");
  ASSERT_TRUE(b.fits());
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(b.form.kind, BulkKind::kCopy);
  expect_address(b.operands.destination, 1001, 0, false);
  expect_address(b.operands.source, 1002, 0, false);
  expect_address(b.operands.barrier, 1004, 0, false);
}

TEST(BulkOperandsTest, Store) {
  const Bound b(
      "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd1], [%r2], %r3, %rd4;");
  ASSERT_TRUE(b.fits());
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_EQ(b.form.kind, BulkKind::kStore);
  expect_address(b.operands.destination, 2001, 0, true);
  expect_address(b.operands.source, 1002, 0, false);
  expect_address(b.operands.barrier, kNoRegister, 0, false);
  EXPECT_EQ(b.operands.cache_policy, 2004u);
}

TEST(BulkOperandsTest, ReductionsHaveAnOperationAndAType) {
  struct Form {
    const char* suffix;
    BulkReduceOp op;
    NumberType type;
  };
  const Form forms[] = {
      {"add.f32", BulkReduceOp::kAdd, NumberType::kF32},
      {"add.f64", BulkReduceOp::kAdd, NumberType::kF64},
      {"add.noftz.f16", BulkReduceOp::kAdd, NumberType::kF16},
      {"add.noftz.bf16", BulkReduceOp::kAdd, NumberType::kBf16},
      {"min.s64", BulkReduceOp::kMin, NumberType::kS64},
      {"max.u32", BulkReduceOp::kMax, NumberType::kU32},
      {"inc.u32", BulkReduceOp::kInc, NumberType::kU32},
      {"dec.u32", BulkReduceOp::kDec, NumberType::kU32},
      {"and.b32", BulkReduceOp::kAnd, NumberType::kU32},
      {"or.b64", BulkReduceOp::kOr, NumberType::kU64},
      {"xor.b64", BulkReduceOp::kXor, NumberType::kU64},
  };
  for (const Form& form : forms) {
    const Bound global(std::string("cp.reduce.async.bulk.global.shared::cta.bulk_group.") +
                       form.suffix + " [%rd1], [%r2], 32;");
    ASSERT_TRUE(global.fits()) << form.suffix;
    EXPECT_EQ(global.form.kind, BulkKind::kReduce);
    EXPECT_EQ(global.form.reduce, form.op) << form.suffix;
    EXPECT_EQ(global.form.type, form.type) << form.suffix;
  }
  const Bound hinted(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.min.bf16 [%rd1], [%r2], "
      "%r3, %rd4;");
  ASSERT_TRUE(hinted.fits());
  EXPECT_EQ(hinted.form.reduce, BulkReduceOp::kMin);
  EXPECT_EQ(hinted.form.type, NumberType::kBf16);
  const Bound shared(
      "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u64 "
      "[%r1], [%r2], %r3, [%r4];");
  ASSERT_TRUE(shared.fits());
  EXPECT_EQ(shared.form.kind, BulkKind::kReduceShared);
  EXPECT_EQ(shared.form.type, NumberType::kU64);
  expect_address(shared.operands.barrier, 1004, 0, false);
}

TEST(BulkOperandsTest, TensorLoadsOfEveryRank) {
  std::string coordinates;
  for (uint32_t rank = 1; rank <= 5; ++rank) {
    coordinates += (rank > 1 ? ", %r" : "%r") + std::to_string(rank);
    const std::string opcode =
        "cp.async.bulk.tensor." + std::to_string(rank) + "d.shared::cluster.global";
    for (const char* mode : {"", ".tile"}) {
      const Bound b(opcode + mode + ".mbarrier::complete_tx::bytes [%r7], [%rd1, {" + coordinates +
                    "}], [%r8+8];");
      ASSERT_TRUE(b.fits()) << rank << mode;
      ASSERT_TRUE(b.status().ok()) << b.status().to_string();
      EXPECT_EQ(b.form.kind, BulkKind::kLoad);
      EXPECT_EQ(b.form.rank, rank);
      expect_address(b.operands.destination, 1007, 0, false);
      expect_address(b.operands.source, 2001, 0, true);
      expect_address(b.operands.barrier, 1008, 8, false);
      for (uint32_t c = 0; c < 5; ++c) {
        EXPECT_EQ(b.operands.coordinates[c], c < rank ? 1001 + c : kNoRegister);
      }
      EXPECT_EQ(b.operands.bytes, kNoRegister);
    }
  }
}

TEST(BulkOperandsTest, TensorLoadWithEverything) {
  const Bound b(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes."
      "multicast::cluster.L2::cache_hint [%r1], [%rd1, {%r2, 0}], [%r3], 3, %rd2;");
  ASSERT_TRUE(b.fits());
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  EXPECT_TRUE(b.form.multicast);
  EXPECT_NE(b.operands.block_mask, kNoRegister);
  EXPECT_EQ(b.operands.cache_policy, 2002u);
  EXPECT_EQ(b.operands.coordinates[0], 1002u);
  EXPECT_NE(b.operands.coordinates[1], kNoRegister);
}

TEST(BulkOperandsTest, TensorStoreAndReduction) {
  const Bound store(
      "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%rd1, {%r1, %r2, %r3}], "
      "[tile];");
  ASSERT_TRUE(store.fits());
  EXPECT_EQ(store.form.kind, BulkKind::kStore);
  EXPECT_EQ(store.form.rank, 3);
  expect_address(store.operands.destination, 2001, 0, true);
  EXPECT_EQ(store.place(store.operands.source), 0x8000);
  EXPECT_EQ(store.operands.coordinates[2], 1003u);
  const Bound reduce(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group.L2::cache_hint "
      "[%rd1, {%r1, %r2}], [%r3], %rd4;");
  ASSERT_TRUE(reduce.fits());
  EXPECT_EQ(reduce.form.kind, BulkKind::kReduce);
  EXPECT_EQ(reduce.form.reduce, BulkReduceOp::kMax);
  EXPECT_EQ(reduce.form.rank, 2);
}

TEST(BulkOperandsTest, Prefetches) {
  const Bound bytes("cp.async.bulk.prefetch.L2.global [%rd1], %r2;");
  ASSERT_TRUE(bytes.fits());
  EXPECT_EQ(bytes.form.kind, BulkKind::kPrefetch);
  expect_address(bytes.operands.source, 2001, 0, true);
  EXPECT_EQ(bytes.operands.bytes, 1002u);
  const Bound tensor(
      "cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint [%rd1, {%r1, %r2}], %rd3;");
  ASSERT_TRUE(tensor.fits());
  EXPECT_EQ(tensor.form.kind, BulkKind::kPrefetch);
  EXPECT_EQ(tensor.form.rank, 2);
  EXPECT_EQ(tensor.operands.cache_policy, 2003u);
}

TEST(BulkOperandsTest, AMapThatIsAParameter) {
  const Bound b("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [map, {%r1}], [%r2];");
  ASSERT_TRUE(b.fits());
  ASSERT_TRUE(b.status().ok()) << b.status().to_string();
  // Behind `first`, at its own alignment.
  expect_address(b.operands.destination, kNoRegister, static_cast<int64_t>(kParamWindow + 64),
                 true);
}

TEST(BulkOperandsTest, OtherOperandsDoNotFit) {
  const std::string load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
  const std::string tensor =
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes";
  const std::string bad[] = {
      load + " [%r1], [%rd2], %r3;",                                 // no barrier
      load + " [%r1], [%rd2], %rd3, [%r4];",                         // size of 64 bits
      load + " [%r1], [%rd2], %r3, %r4;",                            // a barrier in no brackets
      load + " [%r1], [%rd2], %r3, [%r4], %rs5;",                    // a mask without multicast
      load + ".multicast::cluster [%r1], [%rd2], %r3, [%r4], %r5;",  // a mask of 32 bits
      load + ".L2::cache_hint [%r1], [%rd2], %r3, [%r4], %r5;",      // a policy of 32 bits
      load + " [%r1], [%rd2, {%r1}], %r3, [%r4];",                   // coordinates without a tensor
      tensor + " [%r1], [%rd2], [%r4];",                             // no coordinates
      tensor + " [%r1], [%rd2, {%r1}], [%r4];",                      // too few
      tensor + " [%r1], [%rd2, {%r1, %r2, %r3}], [%r4];",            // too many
      tensor + " [%r1], [%rd2, {%r1, %rd2}], [%r4];",                // of 64 bits
      tensor + " [%r1], [%rd2, %r1, %r2], [%r4];",                   // without braces
  };
  for (const std::string& text : bad) {
    const Bound b(text);
    ASSERT_TRUE(b.status().ok()) << b.status().to_string();
    EXPECT_FALSE(b.fits()) << text;
  }
}

TEST(BulkOperandsTest, AddressesOfTheWrongKindAreErrors) {
  const auto message = [](const std::string& text) {
    const Bound b(text);
    EXPECT_TRUE(b.fits());
    EXPECT_EQ(b.status().code(), StatusCode::kDeviceError);
    return b.status().message();
  };
  EXPECT_EQ(message("cp.async.bulk.global.shared::cta.bulk_group [%r1], [%r2], %r3;"),
            "[%r1]: an address of this state space has 64 bits");
  EXPECT_EQ(message("cp.async.bulk.global.shared::cta.bulk_group [tile], [%r2], %r3;"),
            "tile lies in another state space");
  EXPECT_EQ(message("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [map], %r3;"),
            "the address of a parameter");
  EXPECT_EQ(message("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 24;"),
            "a size of 24 bytes: allowed are multiples of 16");
}

}  // namespace
}  // namespace lssar::vdev
