#include "autotune/measure/packed_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/packed_rows.h"

namespace lssar {
namespace {

using Values = std::vector<double>;

// A sequence's place among all rows, and what it has of each tensor.
struct Place {
  Sizes all, own;
  int64_t first_q = 0, first_k = 0;

  Values of_q(const Values& values, int64_t dim) const {
    return rows_of_heads(values, all.heads, all.seq_q, dim, first_q, first_q + own.seq_q);
  }
  Values of_k(const Values& values, int64_t dim) const {
    return rows_of_heads(values, all.kv_heads, all.seq_k, dim, first_k, first_k + own.seq_k);
  }
  // The reference leaves out gradients where there is no query; they are 0.
  void put_q(Values part, int64_t dim, Values& values) const {
    part.resize(static_cast<size_t>(all.heads * own.seq_q * dim));
    put_rows_of_heads(part, all.heads, all.seq_q, dim, first_q, first_q + own.seq_q, &values);
  }
  void put_k(Values part, int64_t dim, Values& values) const {
    part.resize(static_cast<size_t>(all.kv_heads * own.seq_k * dim));
    put_rows_of_heads(part, all.kv_heads, all.seq_k, dim, first_k, first_k + own.seq_k, &values);
  }
};

ReferenceInputs inputs_of(const Problem& problem, const Place& place, const ReferenceInputs& all) {
  const auto positions = [&](const Values& table) -> Values {
    return {table.begin(), table.begin() + place.own.seq_k * (problem.rotary_dim / 2)};
  };
  return {place.of_q(all.q, problem.head_dim),
          place.of_k(all.k, problem.head_dim),
          place.of_k(all.v, problem.head_dim_v),
          place.of_q(all.grad_o, problem.head_dim_v),
          all.sink,
          positions(all.rotary_cos),
          positions(all.rotary_sin),
          all.alibi_slopes};
}

void add(const Problem& problem, const Place& place, ReferenceOutputs one, bool has_gradients,
         ReferenceOutputs& all) {
  place.put_q(std::move(one.o), problem.head_dim_v, all.o);
  if (has_gradients) {
    place.put_q(std::move(one.dq), problem.head_dim, all.dq);
    place.put_k(std::move(one.dk), problem.head_dim, all.dk);
    place.put_k(std::move(one.dv), problem.head_dim_v, all.dv);
    all.dsink.resize(std::max(all.dsink.size(), one.dsink.size()));
    for (size_t head = 0; head < one.dsink.size(); ++head) all.dsink[head] += one.dsink[head];
  }
  for (double ReferenceOutputs::*norm :
       {&ReferenceOutputs::floor_norm_dq, &ReferenceOutputs::floor_norm_dk,
        &ReferenceOutputs::floor_norm_dsink, &ReferenceOutputs::row_norm_dsink,
        &ReferenceOutputs::ideal_error_o, &ReferenceOutputs::ideal_error_dq,
        &ReferenceOutputs::ideal_error_dk, &ReferenceOutputs::ideal_error_dv,
        &ReferenceOutputs::rotation_error_dsink}) {
    // NOTE: not hypot: it alone would make the library need glibc 2.35.
    all.*norm = std::sqrt(all.*norm * all.*norm + one.*norm * one.*norm);
  }
}

}  // namespace

Result<ReferenceOutputs> reference_call(const Problem& problem, const Sizes& sizes,
                                        const SequenceLengths& lengths,
                                        const ReferenceInputs& inputs) {
  if (lengths.empty()) return reference_attention(problem, sizes, inputs);
  const bool has_gradients = problem.pass == Pass::kBackward;
  Place place{sizes_of_packed(lengths, sizes), {}, 0, 0};
  const auto numbers = [](int64_t heads, int64_t rows, int64_t dim) {
    return static_cast<size_t>(heads * rows * dim);
  };
  ReferenceOutputs all;
  all.o.resize(numbers(sizes.heads, place.all.seq_q, problem.head_dim_v));
  if (has_gradients) {
    all.dq.resize(numbers(sizes.heads, place.all.seq_q, problem.head_dim));
    all.dk.resize(numbers(sizes.kv_heads, place.all.seq_k, problem.head_dim));
    all.dv.resize(numbers(sizes.kv_heads, place.all.seq_k, problem.head_dim_v));
  }
  for (size_t b = 0; b < lengths.q.size(); ++b) {
    place.own = sizes_of_sequence(lengths, b, sizes);
    LSSAR_ASSIGN_OR_RETURN(
        ReferenceOutputs one,
        reference_attention(problem, place.own, inputs_of(problem, place, inputs)));
    add(problem, place, std::move(one), has_gradients, all);
    place.first_q += place.own.seq_q;
    place.first_k += place.own.seq_k;
  }
  return all;
}

double pairs_of_call(const Sizes& sizes, const SequenceLengths& lengths) {
  if (lengths.empty()) return static_cast<double>(sizes.seq_q) * static_cast<double>(sizes.seq_k);
  double pairs = 0;
  for (size_t b = 0; b < lengths.q.size(); ++b)
    pairs += static_cast<double>(lengths.q[b]) * static_cast<double>(lengths.k[b]);
  return pairs;
}

}  // namespace lssar
