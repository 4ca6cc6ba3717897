#include "tools/lssar/call/sequence_lengths.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "base/npy.h"
#include "reference/packed_rows.h"

namespace lssar::command {
namespace {

int64_t longest(const std::vector<int32_t>& cu_seqlens) {
  int64_t most = 0;
  for (size_t b = 1; b < cu_seqlens.size(); ++b)
    most = std::max<int64_t>(most, cu_seqlens[b] - cu_seqlens[b - 1]);
  return most;
}

// The rows of a table of angles that a sequence of `keys` keys reads.
std::vector<float> positions(const std::vector<float>& table, int64_t keys, int rotary_dim) {
  return {table.begin(), table.begin() + keys * (rotary_dim / 2)};
}

// Appends `text` to a list of sums.
Status add_length(const std::string& text, std::vector<int32_t>& cu_seqlens) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  int64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || length < 0 || length > kMost - cu_seqlens.back()) {
    return invalid_argument(fmt::format(
        "--lengths: '{}'; allowed are whole numbers from 0 whose sum is at most {}: one for a "
        "sequence, or two, as in 5:7, for its queries and its keys",
        text, kMost));
  }
  cu_seqlens.push_back(static_cast<int32_t>(cu_seqlens.back() + length));
  return {};
}

Result<std::vector<int32_t>> read_cu_seqlens(const char* option, const std::string& path,
                                             const char* tensor, int64_t rows) {
  LSSAR_ASSIGN_OR_RETURN(const NpyArray<int64_t> array, read_npy_int64(path));
  if (array.shape.size() != 1 || array.values.empty()) {
    return invalid_argument(fmt::format("{} {}: shape {}; allowed is (sequences + 1,)", option,
                                        path, npy_shape_string(array.shape)));
  }
  const std::vector<int64_t>& all = array.values;
  for (size_t i = 0; i < all.size(); ++i) {
    const int64_t least = i == 0 ? 0 : all[i - 1], most = i == 0 ? 0 : rows;
    if (all[i] < least || all[i] > most)
      return invalid_argument(fmt::format("{} {}: entry {} is {}; allowed are {} to {}", option,
                                          path, i, all[i], least, most));
  }
  if (all.back() != rows)
    return invalid_argument(
        fmt::format("{} {}: the last entry is {}; allowed is {}, the rows of {}", option, path,
                    all.back(), rows, tensor));
  return std::vector<int32_t>(all.begin(), all.end());
}

}  // namespace

Sizes PackedSequences::tensors() const {
  return {1, heads, kv_heads, cu_seqlens_q.back(), cu_seqlens_k.back()};
}

Sizes PackedSequences::of_sequence(int64_t b) const {
  return {1, heads, kv_heads, int64_t{cu_seqlens_q[b + 1]} - cu_seqlens_q[b],
          int64_t{cu_seqlens_k[b + 1]} - cu_seqlens_k[b]};
}

SequencesOfCall PackedSequences::call() const {
  SequencesOfCall call;
  call.sizes = {count(), heads, kv_heads, longest(cu_seqlens_q), longest(cu_seqlens_k)};
  call.sequences.cu_seqlens_q = cu_seqlens_q.data();
  call.sequences.cu_seqlens_k = cu_seqlens_k.data();
  call.sequences.total_q = cu_seqlens_q.back();
  call.sequences.total_k = cu_seqlens_k.back();
  return call;
}

SequenceLengths PackedSequences::lengths() const {
  SequenceLengths lengths;
  for (int64_t b = 0; b < count(); ++b) lengths.add(of_sequence(b).seq_q, of_sequence(b).seq_k);
  return lengths;
}

AttentionInputs PackedSequences::inputs(int64_t b, const Problem& problem,
                                        const AttentionInputs& all) const {
  const auto of_q = [&](const std::vector<float>& values, int64_t dim) {
    return rows_of_heads(values, heads, cu_seqlens_q.back(), dim, cu_seqlens_q[b],
                         cu_seqlens_q[b + 1]);
  };
  const auto of_k = [&](const std::vector<float>& values, int64_t dim) {
    return rows_of_heads(values, kv_heads, cu_seqlens_k.back(), dim, cu_seqlens_k[b],
                         cu_seqlens_k[b + 1]);
  };
  const int64_t keys = of_sequence(b).seq_k;
  return {of_q(all.q, problem.head_dim),
          of_k(all.k, problem.head_dim),
          of_k(all.v, problem.head_dim_v),
          of_q(all.grad_o, problem.head_dim_v),
          all.sink,
          positions(all.rotary_cos, keys, problem.rotary_dim),
          positions(all.rotary_sin, keys, problem.rotary_dim),
          all.alibi_slopes};
}

AttentionOutputs PackedSequences::outputs(int64_t b, const Problem& problem,
                                          const AttentionOutputs& all) const {
  const auto of_q = [&](const std::vector<float>& values, int64_t dim) {
    return rows_of_heads(values, heads, cu_seqlens_q.back(), dim, cu_seqlens_q[b],
                         cu_seqlens_q[b + 1]);
  };
  const auto of_k = [&](const std::vector<float>& values, int64_t dim) {
    return rows_of_heads(values, kv_heads, cu_seqlens_k.back(), dim, cu_seqlens_k[b],
                         cu_seqlens_k[b + 1]);
  };
  AttentionOutputs part;
  part.o = of_q(all.o, problem.head_dim_v);
  // Saved tensors hold sequence after sequence.
  const int64_t row = heads * problem.head_dim_v;
  if (!all.saved_o.empty())
    part.saved_o.assign(all.saved_o.begin() + cu_seqlens_q[b] * row,
                        all.saved_o.begin() + cu_seqlens_q[b + 1] * row);
  part.grad_q = of_q(all.grad_q, problem.head_dim);
  part.grad_k = of_k(all.grad_k, problem.head_dim);
  part.grad_v = of_k(all.grad_v, problem.head_dim_v);
  return part;
}

void LengthsOption::add_to(CLI::App& app) {
  app.add_option(
         "--lengths", text_,
         "sequences of these lengths, packed one after another: 5,0,300; with other numbers "
         "of keys 5:7,0:3,300:300")
      ->type_name("N,...")
      ->group("Data");
}

Result<PackedSequences> LengthsOption::sequences(const Problem& problem) const {
  if (!problem.varlen && (problem.seq_q != 0 || problem.seq_k != 0)) {
    return invalid_argument(
        fmt::format("--lengths: given, but seq_q = {} and seq_k = {}; allowed without varlen are 0",
                    problem.seq_q, problem.seq_k));
  }
  if (problem.batch != 1) {
    return invalid_argument(
        fmt::format("--lengths: given, but batch = {}; allowed is 1, because there are as many "
                    "sequences as lengths",
                    problem.batch));
  }
  PackedSequences packed{{0}, {0}, problem.heads, problem.kv_heads};
  for (size_t begin = 0; begin <= text_->size();) {
    const size_t end = std::min(text_->find(',', begin), text_->size());
    const std::string one = text_->substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = one.find(':');
    LSSAR_RETURN_IF_ERROR(add_length(one.substr(0, colon), packed.cu_seqlens_q));
    LSSAR_RETURN_IF_ERROR(
        add_length(colon == std::string::npos ? one : one.substr(colon + 1), packed.cu_seqlens_k));
  }
  return packed;
}

CLI::Option* CuSeqlensFiles::add_to(CLI::App& app) {
  CLI::Option* const q =
      app.add_option(
             "--cu-seqlens", q_,
             "packed sequences: int32 or int64 .npy [sequences + 1], the row where each begins, "
             "then the number of rows; tensors are [rows, heads, dim]")
          ->type_name("FILE")
          ->group("Files");
  app.add_option("--cu-seqlens-k", k_, "the same for keys and values (default: --cu-seqlens)")
      ->type_name("FILE")
      ->group("Files")
      ->needs(q);
  return q;
}

Result<PackedSequences> CuSeqlensFiles::read(const Sizes& sizes) const {
  PackedSequences packed;
  packed.heads = sizes.heads;
  packed.kv_heads = sizes.kv_heads;
  LSSAR_ASSIGN_OR_RETURN(packed.cu_seqlens_q,
                         read_cu_seqlens("--cu-seqlens", q_, "--q", sizes.seq_q));
  const bool is_own = !k_.empty();
  LSSAR_ASSIGN_OR_RETURN(packed.cu_seqlens_k,
                         read_cu_seqlens(is_own ? "--cu-seqlens-k" : "--cu-seqlens",
                                         is_own ? k_ : q_, "--k", sizes.seq_k));
  if (packed.cu_seqlens_q.size() == packed.cu_seqlens_k.size()) return packed;
  return invalid_argument(
      fmt::format("--cu-seqlens-k {}: {} entries; allowed are {}, those of "
                  "--cu-seqlens",
                  k_, packed.cu_seqlens_k.size(), packed.cu_seqlens_q.size()));
}

}  // namespace lssar::command
