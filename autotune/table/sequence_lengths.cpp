#include "autotune/table/sequence_lengths.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_fields.h"

namespace lssar {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

int64_t sum(const std::vector<int64_t>& all) {
  return std::accumulate(all.begin(), all.end(), int64_t{0});
}

int64_t longest(const std::vector<int64_t>& all) {
  return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

// The part b / count of `length`, rounded up, without overflow.
int64_t share(int64_t length, int64_t b, int64_t count) {
  return static_cast<int64_t>((static_cast<__int128>(length) * b + count - 1) / count);
}

Status read_list(JsonFields& fields, const char* name, std::vector<int64_t>& out) {
  const nlohmann::json* const list = fields.need_list(name, kMostSequences);
  if (list == nullptr) return fields.status();
  for (const nlohmann::json& one : *list) {
    if (!one.is_number_integer() || one.get<int64_t>() < 0 || one.get<int64_t>() > kMost) {
      return invalid_argument(
          fmt::format("{}: allowed are whole numbers from 0 to {}", fields.path(name), kMost));
    }
    out.push_back(one.get<int64_t>());
  }
  return {};
}

}  // namespace

int64_t SequenceLengths::total_q() const { return sum(q); }
int64_t SequenceLengths::total_k() const { return sum(k); }

SequenceLengths even_lengths(const Problem& problem, const Sizes& sizes) {
  SequenceLengths lengths;
  if (!problem.varlen) return lengths;
  for (int64_t b = 1; b <= sizes.batch; ++b)
    lengths.add(share(sizes.seq_q, b, sizes.batch), share(sizes.seq_k, b, sizes.batch));
  return lengths;
}

Sizes sizes_of_call(const SequenceLengths& lengths, int64_t heads, int64_t kv_heads) {
  return {lengths.count(), heads, kv_heads, longest(lengths.q), longest(lengths.k)};
}

Sizes sizes_of_packed(const SequenceLengths& lengths, const Sizes& call) {
  if (lengths.empty()) return call;
  return {1, call.heads, call.kv_heads, lengths.total_q(), lengths.total_k()};
}

Sizes sizes_of_sequence(const SequenceLengths& lengths, size_t b, const Sizes& call) {
  return {1, call.heads, call.kv_heads, lengths.q[b], lengths.k[b]};
}

std::string to_string(const SequenceLengths& lengths) {
  std::string text;
  const bool has_pairs = lengths.q != lengths.k;
  for (size_t b = 0; b < lengths.q.size(); ++b) {
    text += fmt::format("{}{}", b == 0 ? "" : ",", lengths.q[b]);
    if (has_pairs) text += fmt::format(":{}", lengths.k[b]);
  }
  return text;
}

Status check_lengths(const Problem& problem, const Sizes& sizes, const SequenceLengths& lengths) {
  if (problem.varlen == lengths.empty()) {
    return invalid_argument(
        fmt::format("lengths: {}, with varlen = {}; allowed are lengths with "
                    "varlen = true, and none without",
                    lengths.empty() ? "none" : "given", problem.varlen));
  }
  if (lengths.empty()) return {};
  if (lengths.q.size() != lengths.k.size()) {
    return invalid_argument(
        fmt::format("lengths: {} of queries and {} of keys; allowed are as many", lengths.q.size(),
                    lengths.k.size()));
  }
  if (lengths.count() > kMostSequences) {
    return invalid_argument(
        fmt::format("lengths: {} sequences; allowed are 1 to {}", lengths.count(), kMostSequences));
  }
  int64_t total_q = 0, total_k = 0;
  for (size_t b = 0; b < lengths.q.size(); ++b) {
    const int64_t q = lengths.q[b], k = lengths.k[b];
    if (q < 0 || k < 0 || q > kMost - total_q || k > kMost - total_k) {
      return invalid_argument(
          fmt::format("lengths[{}] = {}:{}: allowed are lengths from 0 whose sum is at most {}", b,
                      q, k, kMost));
    }
    if (problem.rotary_dim != 0 && q > k) {
      return invalid_argument(
          fmt::format("lengths[{}] = {}:{}: allowed with rotary_dim are 0 to {} queries, because "
                      "query i stands at position i + keys - queries",
                      b, q, k, k));
    }
    total_q += q;
    total_k += k;
  }
  const Sizes meant = sizes_of_call(lengths, sizes.heads, sizes.kv_heads);
  if (meant == sizes) return {};
  return invalid_argument(
      fmt::format("lengths: {} sequences of up to {}x{}; allowed are those of batch = {}, seq_q = "
                  "{} and seq_k = {}",
                  meant.batch, meant.seq_q, meant.seq_k, sizes.batch, sizes.seq_q, sizes.seq_k));
}

nlohmann::json to_json(const SequenceLengths& lengths) {
  return {{"q", lengths.q}, {"k", lengths.k}};
}

Result<SequenceLengths> lengths_from_json(const nlohmann::json& json, const std::string& where) {
  JsonFields fields(json, where);
  SequenceLengths lengths;
  LSSAR_RETURN_IF_ERROR(read_list(fields, "q", lengths.q));
  LSSAR_RETURN_IF_ERROR(read_list(fields, "k", lengths.k));
  LSSAR_RETURN_IF_ERROR(fields.finish());
  return lengths;
}

}  // namespace lssar
