// What the tests of wgmma share: kernels of one product in a warp group, written from its shape,
// and operands for them. Elements are small integers, so that every sum is exact.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/virtual/ptx_fixture.h"
#include "virtual/run/virtual_device.h"

namespace lssar::test::wgmma {

inline constexpr uint32_t kThreads = 128;
inline constexpr uint32_t kDepthBytes = 32;  // of K, per wgmma
inline constexpr uint32_t kPlaceOfA = 1024;  // in shared memory
inline constexpr uint32_t kPlaceOfB = 32 << 10;
inline constexpr uint32_t kSharedBytes = 72 << 10;  // the part that is filled
inline constexpr uint32_t kUndefinedBytes = 1024;   // after it

enum class Element { kF16, kBf16, kTf32, kE4m3, kS8, kU8 };
enum class Layout { kRegisters, kKMajor, kKMajorPlain, kMnMajor };
uint32_t bytes_of(Element e);
const char* name_of(Element e);

// D = A B (+ D) in `steps` wgmmas, each 32 bytes of K.
struct Product {
  Element type = Element::kBf16;
  uint32_t n = 64;
  Layout a = Layout::kKMajor;
  Layout b = Layout::kKMajor;
  uint32_t steps = 4;
  bool accumulate = false;  // with the first wgmma too
  bool half_sums = false;
  Element b_type = type;  // s8 and u8 may differ
  bool saturate = false;  // integer sums, which begin near the limits

  bool is_integer() const { return type == Element::kS8 || type == Element::kU8; }
  uint32_t depth() const { return kDepthBytes / bytes_of(type); }
  uint32_t num_sums() const { return n / (half_sums ? 4 : 2); }
};

// Operands as integers, and as the kernel gets them.
class Operands {
 public:
  Operands(const Product& p, int seed);
  const std::vector<uint32_t>& image() const { return image_; }          // of shared memory
  const std::vector<uint32_t>& registers() const { return registers_; }  // of A
  // The accumulators' registers, those of all threads side by side.
  std::vector<uint32_t> before() const { return sum_bits(d_); }
  std::vector<uint32_t> after() const;

 private:
  void put(const std::vector<int>& m, Element type, Layout layout, uint32_t rows, uint32_t start);
  void fill_registers();
  std::vector<uint32_t> sum_bits(const std::vector<int>& sums) const;

  Product p_;
  std::vector<int> a_, b_, d_;  // b_ by columns
  std::vector<uint32_t> image_, registers_;
};

// Parts of a kernel's text.
inline const std::string kFence = "wgmma.fence.sync.aligned;\n";
inline const std::string kCommit = "wgmma.commit_group.sync.aligned;\n";
inline const std::string kWait = "wgmma.wait_group.sync.aligned 0;\n";
inline const std::string kProxyFence = "fence.proxy.async.shared::cta;\n";
inline const std::string kBarrier = "bar.sync 0;\n";
// Fills shared memory, loads registers of A (%a) and accumulators (%d); then a fence and a barrier.
std::string prologue(const Product& p);
// One wgmma of the product, and all of them, with accumulators %d or %e.
std::string wgmma_text(const Product& p, uint32_t step, const char* sums = "%d");
std::string steps_text(const Product& p, const char* sums = "%d");
std::string epilogue(const Product& p);  // stores %d
std::string product_text(const Product& p);
// The text with one `from` replaced. REQUIRES: it is there.
std::string replaced(std::string text, const std::string& from, const std::string& to);

struct Outcome {
  Status status;
  std::vector<uint32_t> out;
};
Outcome run_text(const VirtualOptions& options, const Operands& operands, const std::string& text,
                 uint32_t threads = kThreads);
VirtualOptions options_for(SimdLevel level, bool strict, AsyncTiming timing, uint64_t seed);
inline constexpr AsyncTiming kTimings[] = {AsyncTiming::kLatest, AsyncTiming::kEarliest,
                                           AsyncTiming::kRandom};

// Fails the test unless the kernel is right and gives no report, with every timing and order of
// warps.
void check_text(const Product& p, const std::string& text);
// Fails the test unless all of `expect` appear in the report, with every timing and seed.
void expect_report(const Product& p, const std::string& text,
                   const std::vector<std::string>& expect);

}  // namespace lssar::test::wgmma
