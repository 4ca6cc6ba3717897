// The forward's two passes one by one, over ranges of keys and queries, merged on the host as
// lssar.h says. Used by the tests of key ranges, of LSSAR and of other score functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/capi/run_capi.h"

namespace lssar {

struct Part {
  int64_t first, count;
};

// `length` cut at the given positions.
std::vector<Part> cut(int64_t length, std::vector<int64_t> at);

// The forward's output: o in float32, and the statistics of saved_stats.
struct Merged {
  std::vector<float> o, stats;
};

class SplitForward {
 public:
  SplitForward(lssar_context* context, const Problem& problem, const Sizes& sizes,
               const CapiInputs& inputs);

  // `schedule` "": the default.
  Status prepare(const std::string& schedule = "");
  Result<Merged> run(const std::vector<Part>& queries, const std::vector<Part>& keys);

 private:
  int64_t slices() const { return sizes_.batch * sizes_.heads; }
  lssar_tensor rows_from(std::vector<std::byte>& bytes, int64_t heads, int64_t length, int64_t dim,
                         int64_t first) const;
  lssar_call call_of(const Part& queries, const Part& keys);
  template <typename Execute>
  Status execute(const Execute& function, lssar_call call);
  Result<std::vector<float>> merged_sums(const Part& queries, const std::vector<Part>& keys);
  Status run_queries(const Part& queries, const std::vector<Part>& keys, Merged* all);
  void place(const Part& queries, const std::vector<float>& stats, const std::vector<float>& o,
             Merged* all) const;

  lssar_context* const context_;
  Problem problem_;
  const Sizes sizes_;
  std::vector<std::byte> q_, k_, v_;
  std::vector<float> sink_, slopes_;
  PlanPtr plan_;
};

// The backward of the whole, from the merged ranges. REQUIRES: it needs no X.
Result<CapiOutputs> backward_of(lssar_context* context, const Problem& problem, const Sizes& sizes,
                                const CapiInputs& inputs, const Merged& merged);

}  // namespace lssar
