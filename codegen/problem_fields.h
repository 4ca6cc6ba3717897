// The list of Problem's fields (base/field_list.h). docs/fields.md is made from it.
#pragma once

#include <limits>
#include <tuple>

#include "base/field_list.h"
#include "codegen/problem.h"
#include "score/score_function_fields.h"

namespace lssar {

inline constexpr int kMaxAlignment = 16;
inline constexpr int kMaxPower = 1024;
inline constexpr double kMaxOffset = 1e6;

template <>
inline constexpr EnumName<Pass> enum_names<Pass>[] = {{Pass::kForward, "forward"},
                                                      {Pass::kForwardTrain, "forward-train"},
                                                      {Pass::kBackward, "backward"},
                                                      {Pass::kRowSums, "row-sums"},
                                                      {Pass::kWeightedSum, "weighted-sum"}};
template <>
inline constexpr EnumName<DType> enum_names<DType>[] = {
    {DType::kFp16, "fp16"}, {DType::kBf16, "bf16"}, {DType::kFp32, "fp32"}};
// Who reads a problem's field: bits of Field::readers.
enum ProblemReader : unsigned {
  kReadByKernels = 1,  // the source or the launch recipe depends on it
  kReadByCalls = 2,    // a call's sizes, the search or the reference need it, the kernel does not
};

template <>
inline constexpr auto fields_of<Problem> = [] {
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
  return std::tuple(
      field("pass", &Problem::pass)
          .text("{}")
          .means("forward; forward that saves what the backward reads; backward; the forward's two "
                 "passes alone, over a range of the keys"),
      field("causal", &Problem::causal)
          .text(" causal")
          .text_of(false, " full")
          .means("row i sees keys j < clamp(i + 1 + seq_k - seq_q, 0, seq_k)"),
      field("window_left", &Problem::window_left)
          .whole(-1, kMaxInt32)
          .text(" window_left {}")
          .text_of(-1, "")
          .no_json_of_default()
          .means("keys that a row sees before its position, i + seq_k - seq_q; -1: all"),
      field("window_right", &Problem::window_right)
          .whole(-1, kMaxInt32)
          .text(" window_right {}")
          .text_of(-1, "")
          .no_json_of_default()
          .means("keys that a row sees after its position, none if causal; -1: all"),
      field("window_sinks", &Problem::window_sinks)
          .whole(0, kMaxInt32)
          .text(" window_sinks {}")
          .text_of(0, "")
          .no_json_of_default()
          .means("the first keys, which neither `window_left` nor `chunk` hides"),
      field("prefix", &Problem::prefix)
          .whole(0, kMaxInt32)
          .text(" prefix {}")
          .text_of(0, "")
          .no_json_of_default()
          .means("the first keys, which every row sees"),
      field("chunk", &Problem::chunk)
          .whole(0, kMaxInt32)
          .text(" chunk {}")
          .text_of(0, "")
          .no_json_of_default()
          .means("a row sees keys of its own chunk of so many positions; 0: there are no chunks"),
      field("rotary_dim", &Problem::rotary_dim)
          .whole(0, 256, 2)
          .text(" rotary_dim {}")
          .text_of(0, "")
          .no_json_of_default()
          .means("the first columns of q and k, which rotary positions turn; at most `head_dim`; "
                 "0: none"),
      field("rotary_interleaved", &Problem::rotary_interleaved)
          .text(" rotary_interleaved")
          .text_of(false, "")
          .no_json_of_default()
          .means("rotary positions turn neighbouring columns; else a column of the first half and "
                 "one of the second"),
      field("invariant", &Problem::invariant)
          .text(" invariant")
          .text_of(false, "")
          .no_json_of_default()
          .means("a row's result has the same bits whatever else the call computes"),
      field("dtype", &Problem::dtype).text(" {}").means("type of q, k, v and o"),
      field("head_dim", &Problem::head_dim).whole(8, 256, 8).text(" d {}").means("d of q and k"),
      field("head_dim_v", &Problem::head_dim_v)
          .whole(8, 256, 8)
          .follows(&Problem::head_dim)
          .text(" dv {}")
          .means("dv of v and o; `head_dim` where it is left out"),
      field("p", &Problem::p)
          .whole(0, kMaxPower)
          .text(" p {}")
          .means("power of the re-weighting; 0: none (LSSA)"),
      field("offset", &Problem::offset)
          .allows("numbers from 0 to 1000000")
          .text(" offset {}")
          .means("b of the re-weighting; without effect where `p` is 0"),
      field("seq_q", &Problem::seq_q)
          .whole(0, kMaxInt32)
          .text(" seq {}")
          .text_of(0, " seq any")
          .means("number of queries that a kernel is made for; 0: given by the call; with `varlen` "
                 "the most that a sequence may have, by which the schedule is chosen; 0: any"),
      field("seq_k", &Problem::seq_k)
          .whole(0, kMaxInt32)
          .follows(&Problem::seq_q)
          .text("x{}")
          .text_of(0, "xany")
          .means("the same of keys; `seq_q` where it is left out, with `varlen` 0"),
      field("varlen", &Problem::varlen)
          .text(" varlen")
          .text_of(false, "")
          .means("sequences that have lengths of their own, which calls give"),
      field("batch", &Problem::batch)
          .whole(0, kMaxInt32)
          .read_by(kReadByCalls)
          .text(" batch {}")
          .means("batch size"),
      field("heads", &Problem::heads)
          .whole(1, kMaxInt32)
          .read_by(kReadByCalls)
          .text(" heads {}")
          .means("heads of q and o"),
      field("kv_heads", &Problem::kv_heads)
          .whole(1, kMaxInt32)
          .follows(&Problem::heads)
          .read_by(kReadByCalls)
          .text("/{}")
          .means("heads of k and v; divides `heads`, and is `heads` where it is left out"),
      field("alignment", &Problem::alignment)
          .allows("powers of two from 2 to 16")
          .text(" alignment {}")
          .text_of(kMaxAlignment, "")
          .means("bytes that divide every pointer and every stride; at least an element"),
      field("score", &Problem::score)
          .text(" score {}")
          .no_text_of_default()
          .means("the score function: its fields are below"));
}();

}  // namespace lssar
