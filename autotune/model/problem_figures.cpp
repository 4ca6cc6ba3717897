#include "autotune/model/problem_figures.h"

#include <algorithm>
#include <tuple>

#include "codegen/pass_needs.h"
#include "codegen/sizes.h"
#include "codegen/source/power_chain.h"

namespace lssar {
namespace {

double multiplications_of(int power) {
  return power < 1 ? 0 : static_cast<double>(power_chain(power).size());
}

// Rows and columns are fewer than 2^20, because a tile is in shared memory.
uint64_t key_of(int a, int b, int c = 0) {
  constexpr int kBits = 20;
  return (uint64_t(a) << kBits | uint64_t(b)) << kBits | uint64_t(c);
}

// An estimate takes as long as the parts are many, and a search makes thousands.
constexpr size_t kMostParts = 8;
constexpr int64_t kMostEvenSequences = 1024;  // a call may have 2^31 - 1

// Sizes that stand for the sequences order[first] to order[end - 1]: their share of sizes.batch,
// and their mean lengths, rounded up.
Sizes mean_of(const SequenceLengths& lengths, const Sizes& sizes, const std::vector<size_t>& order,
              size_t first, size_t end) {
  const auto count = static_cast<int64_t>(end - first);
  int64_t q = 0, k = 0;
  for (size_t i = first; i < end; ++i) {
    q += lengths.q[order[i]];
    k += lengths.k[order[i]];
  }
  return {count * sizes.batch / lengths.count(), sizes.heads, sizes.kv_heads,
          (q + count - 1) / count, (k + count - 1) / count};
}

// The parts of a call of sizes.batch sequences, for which `lengths` stand.
CallParts parts_of_sequences(const Problem& problem, const Sizes& sizes,
                             const SequenceLengths& lengths) {
  const auto work = [&](size_t b) {
    return std::tuple(static_cast<double>(lengths.q[b]) * static_cast<double>(lengths.k[b]),
                      lengths.q[b], lengths.k[b]);
  };
  std::vector<size_t> order;
  for (size_t b = 0; b < lengths.q.size(); ++b) {
    if (lengths.q[b] > 0 && lengths.k[b] > 0) order.push_back(b);
  }
  if (order.empty()) order.push_back(0);  // work for no kernel
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return work(a) > work(b); });
  // Where a part of equal lengths ends.
  std::vector<size_t> ends;
  for (size_t i = 1; i <= order.size(); ++i) {
    if (i == order.size() || work(order[i]) != work(order[i - 1])) ends.push_back(i);
  }
  if (ends.size() > kMostParts) {
    ends.clear();
    for (size_t part = 1; part <= kMostParts; ++part)
      ends.push_back(part * order.size() / kMostParts);
  }
  CallParts parts;
  size_t first = 0;
  for (const size_t end : ends) {
    parts.push_back(
        std::make_unique<CallPart>(problem, mean_of(lengths, sizes, order, first, end)));
    first = end;
  }
  return parts;
}

}  // namespace

ProblemFigures::ProblemFigures(const Problem& problem, const Sizes& sizes)
    : problem_(problem),
      sizes_(sizes),
      multiplications_{multiplications_of(problem.p), multiplications_of(problem.p - 1)} {
  if (is_general(problem)) functions_ = function_costs(problem);
}

CallParts parts_of_call(const Problem& problem, const Sizes& sizes,
                        const SequenceLengths& lengths) {
  if (!problem.varlen || sizes.batch <= 0) {
    CallParts parts;
    parts.push_back(std::make_unique<CallPart>(problem, sizes));
    return parts;
  }
  if (!lengths.empty()) return parts_of_sequences(problem, sizes, lengths);
  // Even lengths of more sequences have about the same means.
  Sizes some = sizes;
  some.batch = std::min(sizes.batch, kMostEvenSequences);
  return parts_of_sequences(problem, sizes, even_lengths(problem, some));
}

TileCount ProblemFigures::query_tiles(int rows, int cols) {
  return query_tiles_.get(key_of(rows, cols),
                          [&] { return lssar::query_tiles(problem_, sizes_, rows, cols); });
}

TileCount ProblemFigures::packed_query_tiles(int packed_rows, int rows, int cols) {
  return packed_query_tiles_.get(key_of(packed_rows, rows, cols), [&] {
    return lssar::packed_query_tiles(problem_, sizes_, packed_rows, rows, cols);
  });
}

TileCount ProblemFigures::key_tiles(int rows, int cols) {
  return key_tiles_.get(key_of(rows, cols),
                        [&] { return lssar::key_tiles(problem_, sizes_, rows, cols); });
}

EvaluatorMix ProblemFigures::evaluator_mix(const Schedule& schedule) {
  const uint64_t key =
      key_of(static_cast<int>(schedule.variant), static_cast<int>(schedule.hopper.evaluator),
             int{sums_x(problem_, schedule)});
  return mixes_.get(key, [&] { return lssar::evaluator_mix(problem_, sizes_, schedule); });
}

}  // namespace lssar
