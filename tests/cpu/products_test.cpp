// How many products the forward of causal sequences makes for each that is needed: pass 1 of the
// templates, compiled here, with products that are counted.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "codegen/cpu/cpu_shapes.h"
#include "templates/cpu/forward.h"

namespace lssar {
namespace {

int64_t num_products;  // in every step over the head dim: pairs of a query and a key

// The default tile of a forward on a target of kVectorLanes numbers in a vector.
template <int kVectorLanes, int kTileRows, int kColumns, bool kArePairs>
struct Tile {
  using Element = lssar_device::Bf16;
  static constexpr int kLanes = kVectorLanes, kRows = kTileRows, kGroups = 12 / kTileRows;
  static constexpr int kPanelKeys = kColumns, kPanelVectors = kColumns / kVectorLanes;
  static constexpr int kBlockKeys = 512, kKeptKeys = 1024;
  static constexpr int kHeadDim = 8, kHeadDimV = 8, kHeadDimVPadded = 16;
  static constexpr int kPanelRows = kArePairs ? kHeadDim / 2 + 1 : kHeadDim;
  static constexpr long long kSeqQ = 0, kSeqK = 0;
  static constexpr bool kHasPairs = kArePairs, kHasNorms = true, kIsInvariant = false;
  static constexpr bool kIsRange = false, kIsCausal = true, kHasWindow = false;
  static constexpr long long kWindowLeft = -1, kWindowRight = 0, kChunk = 0;
  static constexpr long long kWindowSinks = 0, kPrefix = 0;
  static constexpr bool kSumsX = false, kSkipsKeys = false;
  static constexpr double kLogHeadDim = 3;
  using Factors = std::conditional_t<kArePairs, typename lssar_device::VectorOf<kLanes>::Words,
                                     typename lssar_device::VectorOf<kLanes>::Floats>;
  static constexpr float kExp2Terms[] = {1.0f, 0.69314718f, 0.24f};
  static constexpr float kSoftplusTerms[] = {1.44f, -0.72f, 0.44f};
};
struct Avx2 : Tile<8, 6, 16, false> {
  static constexpr const char* kTarget = "x86-64-v3";
};
struct Avx512 : Tile<16, 3, 64, false> {
  static constexpr const char* kTarget = "x86-64-v4";
};
struct Avx512Pairs : Tile<16, 3, 64, true> {
  static constexpr const char* kTarget = "x86-64-v4-bf16";
};

template <class Config>
lssar_device::Floats<Config> counted(lssar_device::Floats<Config> sum) {
  num_products += Config::kLanes;
  return sum;
}

}  // namespace
}  // namespace lssar

namespace lssar_device {

template <>
inline Floats<lssar::Avx2> add_products<lssar::Avx2>(Factors<lssar::Avx2>, Factors<lssar::Avx2>,
                                                     Floats<lssar::Avx2> sum) {
  return lssar::counted<lssar::Avx2>(sum);
}
template <>
inline Floats<lssar::Avx512> add_products<lssar::Avx512>(Factors<lssar::Avx512>,
                                                         Factors<lssar::Avx512>,
                                                         Floats<lssar::Avx512> sum) {
  return lssar::counted<lssar::Avx512>(sum);
}
template <>
inline Floats<lssar::Avx512Pairs> add_products<lssar::Avx512Pairs>(Factors<lssar::Avx512Pairs>,
                                                                   Factors<lssar::Avx512Pairs>,
                                                                   Floats<lssar::Avx512Pairs> sum) {
  return lssar::counted<lssar::Avx512Pairs>(sum);
}

}  // namespace lssar_device

namespace lssar {
namespace {

struct Products {
  double scores = 0, values = 0, needed = 0;
};

// Adds the products of one head of a causal sequence with `length` queries and keys.
template <class Config>
void add_sequence(int64_t length, Products& products) {
  const std::vector<lssar_device::Bf16> queries(static_cast<size_t>(length * Config::kHeadDim));
  std::vector<float> panels(
      static_cast<size_t>((length + Config::kPanelKeys) * Config::kPanelRows));
  lssar_device::AttentionParams params{};
  params.q.data = const_cast<lssar_device::Bf16*>(queries.data());
  params.q.row_stride = Config::kHeadDim;
  params.k_inv_norm = panels.data();
  params.seq_q = params.seq_k = length;
  params.batch = params.heads = params.kv_heads = params.panel_slices = 1;
  const auto scratch = std::make_unique<lssar_device::ForwardScratch<Config>>();
  num_products = 0;
  for (int64_t row = 0; row < length; row += lssar_device::kBlockRows<Config>) {
    const lssar_device::RowPlace place = {0, 0, 0, row};
    lssar_device::ForwardBlock<Config> block{params, place, *scratch, {}, 0, 0, 0};
    block.load();
    block.sum_activations();
    // Pass 2 multiplies the values of all keys that one of the block's rows sees.
    products.values += static_cast<double>(block.num_rows * block.seen);
  }
  const int steps = lssar_device::steps_of<Config>(Config::kHeadDim);
  products.scores += static_cast<double>(num_products / steps);
  products.needed += static_cast<double>(length * (length + 1) / 2);
}

template <class Config>
class ProductsOfSequences : public testing::Test {};
using Tiles = testing::Types<Avx2, Avx512, Avx512Pairs>;
TYPED_TEST_SUITE(ProductsOfSequences, Tiles);

TYPED_TEST(ProductsOfSequences, AreCountedWithTheDefaultTile) {
  Problem problem;
  problem.causal = true;
  const Target target = *target_from_name(TypeParam::kTarget);
  const CpuOptions cpu = default_schedule(problem, target).cpu;
  EXPECT_EQ(cpu.rows, TypeParam::kRows);
  EXPECT_EQ(cpu.panel_keys, TypeParam::kPanelKeys);
  EXPECT_EQ(cpu_level(target).lanes, TypeParam::kLanes);
  EXPECT_EQ(cpu_groups(problem, cpu.rows), TypeParam::kGroups);
  EXPECT_EQ(cpu_has_pairs(problem, target), TypeParam::kHasPairs);
}

// 64 sequences of 3 to 1021 rows, whose mean is 512.
TYPED_TEST(ProductsOfSequences, AreAtMostATwentiethMoreThanNeeded) {
  Products products;
  for (int64_t i = 0; i < 32; ++i) {
    const int64_t length = 3 + i * 331 % 509;
    add_sequence<TypeParam>(length, products);
    add_sequence<TypeParam>(1024 - length, products);
  }
  this->RecordProperty("scores", std::to_string(products.scores / products.needed));
  this->RecordProperty("values", std::to_string(products.values / products.needed));
  EXPECT_LE(products.scores, 1.05 * products.needed);
  EXPECT_LE(products.values, 1.05 * products.needed);
  EXPECT_GE(products.scores, products.needed);
  EXPECT_GE(products.values, products.needed);
}

}  // namespace
}  // namespace lssar
