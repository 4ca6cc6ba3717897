#include "autotune/table/bucket.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/table/required_fields.h"
#include "base/field_json.h"
#include "codegen/schedule.h"
#include "codegen/visible_keys.h"
#include "score/score_function_fields.h"

namespace lssar {
namespace {

// What an unknown number of slices counts as.
constexpr int64_t kTypicalSlices = 64;

constexpr int64_t kMostSize = std::numeric_limits<int64_t>::max();

BucketWindow window_of(const Problem& problem) {
  if (!has_window(problem)) return {};
  // As kernels have it: beside a causal mask window_right has no effect.
  return {problem.window_left, window_right_of(problem), problem.window_sinks, problem.prefix,
          problem.chunk};
}

// " window 1023,0 sinks 4": the limits that there are.
std::string window_text(const BucketWindow& window) {
  std::string text;
  if (window.window_left >= 0 || window.window_right >= 0)
    text += fmt::format(" window {},{}", window.window_left, window.window_right);
  if (window.window_sinks != 0) text += fmt::format(" sinks {}", window.window_sinks);
  if (window.prefix != 0) text += fmt::format(" prefix {}", window.prefix);
  if (window.chunk != 0) text += fmt::format(" chunk {}", window.chunk);
  return text;
}

nlohmann::json to_json(const BucketWindow& window) {
  return {{"window_left", window.window_left},
          {"window_right", window.window_right},
          {"window_sinks", window.window_sinks},
          {"prefix", window.prefix},
          {"chunk", window.chunk}};
}

Status read_window(const nlohmann::json& json, BucketWindow& window) {
  RequiredFields fields(json, "bucket.window");
  fields.need_whole("window_left", -1, kMostSize, window.window_left);
  fields.need_whole("window_right", -1, kMostSize, window.window_right);
  fields.need_whole("window_sinks", 0, kMostSize, window.window_sinks);
  fields.need_whole("prefix", 0, kMostSize, window.prefix);
  fields.need_whole("chunk", 0, kMostSize, window.chunk);
  return fields.finish();
}

struct FeatureRow {
  Feature feature;
  const char* name;
  bool (*has)(const Bucket&);
  void (*take)(Bucket&);
};
constexpr FeatureRow kFeatures[] = {
    {Feature::kWindow, "the window", [](const Bucket& b) { return b.window != BucketWindow(); },
     [](Bucket& b) { b.window = {}; }},
    {Feature::kVarlen, "varlen", [](const Bucket& b) { return b.varlen; },
     [](Bucket& b) { b.varlen = false; }},
    {Feature::kInvariant, "invariant", [](const Bucket& b) { return b.invariant; },
     [](Bucket& b) { b.invariant = false; }},
    {Feature::kRotary, "rotary_dim", [](const Bucket& b) { return b.rotary; },
     [](Bucket& b) { b.rotary = false; }}};

std::string size_text(int64_t size) { return size == 0 ? "any" : fmt::to_string(size); }

double log2_distance(int64_t a, int64_t b, int64_t typical) {
  const double x = static_cast<double>(a > 0 ? a : typical);
  const double y = static_cast<double>(b > 0 ? b : typical);
  return std::abs(std::log2(x) - std::log2(y));
}

}  // namespace

int64_t length_bucket(int64_t n) {
  if (n <= 0) return 0;
  const auto floor = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n)));
  // Nearer to 2 floor if n / floor >= sqrt(2). No integer is exactly between.
  const double ratio = static_cast<double>(n) / static_cast<double>(floor);
  return ratio * ratio >= 2 ? 2 * floor : floor;
}

Bucket bucket_of(const Problem& problem, const Sizes& sizes, Determinism determinism) {
  Bucket bucket;
  bucket.pass = problem.pass;
  bucket.dtype = problem.dtype;
  bucket.head_dim = problem.head_dim;
  bucket.head_dim_v = problem.head_dim_v;
  bucket.causal = problem.causal;
  bucket.window = window_of(problem);
  bucket.p = problem.p;
  bucket.has_offset = problem.p != 0 && problem.offset != 0;
  bucket.score = problem.score;
  bucket.alignment =
      problem.alignment >= kFastAlignment ? kFastAlignment : dtype_bytes(problem.dtype);
  bucket.gqa_ratio = sizes.heads > 0 && sizes.kv_heads > 0 ? sizes.heads / sizes.kv_heads : 1;
  bucket.fixed_lengths = built_in_seq_q(problem) != 0 && built_in_seq_k(problem) != 0;
  if (problem.pass == Pass::kBackward) bucket.determinism = determinism;
  bucket.varlen = problem.varlen;
  bucket.rotary = problem.rotary_dim != 0;
  bucket.invariant = problem.invariant;
  bucket.seq_q = length_bucket(sizes.seq_q);
  // Few queries have kernels of their own, so more than that are never in their buckets.
  if (sizes.seq_q > kMostFewQueries && bucket.seq_q <= kMostFewQueries)
    bucket.seq_q = 2 * kMostFewQueries;
  bucket.seq_k = length_bucket(sizes.seq_k);
  bucket.slices = length_bucket(sizes.batch * sizes.heads);
  return bucket;
}

unsigned lacking(const Bucket& its, const Bucket& bucket) {
  unsigned features = 0;
  for (const FeatureRow& row : kFeatures) {
    if (row.has(bucket) && !row.has(its)) features |= static_cast<unsigned>(row.feature);
  }
  return features;
}

std::string feature_names(unsigned features) {
  std::string names;
  for (const FeatureRow& row : kFeatures) {
    if ((features & static_cast<unsigned>(row.feature)) == 0) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return names;
}

Bucket without(Bucket bucket, unsigned features) {
  for (const FeatureRow& row : kFeatures) {
    if ((features & static_cast<unsigned>(row.feature)) != 0) row.take(bucket);
  }
  return bucket;
}

bool same_but_sizes(const Bucket& a, const Bucket& b) {
  Bucket resized = a;
  resized.seq_q = b.seq_q;
  resized.seq_k = b.seq_k;
  resized.slices = b.slices;
  return resized == b;
}

double size_distance(const Bucket& a, const Bucket& b) {
  return log2_distance(a.seq_q, b.seq_q, kTypicalLength) +
         log2_distance(a.seq_k, b.seq_k, kTypicalLength) +
         log2_distance(a.slices, b.slices, kTypicalSlices) / 2;
}

double widest_size_gap(const Bucket& a, const Bucket& b) {
  if (a.varlen && b.varlen) {
    const auto gap = [](int64_t x, int64_t y, int64_t few) {
      const bool is_any = (x == 0 && y > few) || (y == 0 && x > few) || x == y;
      return is_any ? 0 : log2_distance(x, y, kTypicalLength);
    };
    return std::max(gap(a.seq_q, b.seq_q, kMostFewQueries), gap(a.seq_k, b.seq_k, 0));
  }
  const bool has_slices = a.slices > 0 && b.slices > 0;
  return std::max({log2_distance(a.seq_q, b.seq_q, kTypicalLength),
                   log2_distance(a.seq_k, b.seq_k, kTypicalLength),
                   has_slices ? log2_distance(a.slices, b.slices, kTypicalSlices) / 2 : 0});
}

std::string to_string(const Bucket& bucket) {
  std::string text = fmt::format("{} {} {} d {} dv {} p {}{} gqa {} seq {}x{} slices {} {}",
                                 pass_name(bucket.pass), bucket.causal ? "causal" : "full",
                                 dtype_name(bucket.dtype), bucket.head_dim, bucket.head_dim_v,
                                 bucket.p, bucket.has_offset ? "" : " no offset", bucket.gqa_ratio,
                                 size_text(bucket.seq_q), size_text(bucket.seq_k),
                                 size_text(bucket.slices), determinism_name(bucket.determinism));
  if (bucket.varlen) text += " varlen";
  if (bucket.rotary) text += " rotary";
  if (bucket.invariant) text += " invariant";
  text += window_text(bucket.window);
  if (bucket.score != ScoreFunction()) text += " score " + fields_text(bucket.score);
  if (bucket.fixed_lengths) text += " fixed lengths";
  if (bucket.alignment != kFastAlignment) text += fmt::format(" alignment {}", bucket.alignment);
  return text;
}

nlohmann::json to_json(const Bucket& bucket) {
  nlohmann::json json = {{"pass", pass_name(bucket.pass)},
                         {"dtype", dtype_name(bucket.dtype)},
                         {"head_dim", bucket.head_dim},
                         {"head_dim_v", bucket.head_dim_v},
                         {"causal", bucket.causal},
                         {"p", bucket.p},
                         {"has_offset", bucket.has_offset},
                         {"alignment", bucket.alignment},
                         {"gqa_ratio", bucket.gqa_ratio},
                         {"fixed_lengths", bucket.fixed_lengths},
                         {"determinism", determinism_name(bucket.determinism)},
                         {"seq_q", bucket.seq_q},
                         {"seq_k", bucket.seq_k},
                         {"slices", bucket.slices}};
  if (bucket.score != ScoreFunction()) json["score"] = fields_to_json(bucket.score);
  if (bucket.window != BucketWindow()) json["window"] = to_json(bucket.window);
  if (bucket.varlen) json["varlen"] = true;
  if (bucket.rotary) json["rotary"] = true;
  if (bucket.invariant) json["invariant"] = true;
  return json;
}

Result<Bucket> bucket_from_json(const nlohmann::json& json) {
  Bucket bucket;
  RequiredFields fields(json, "bucket");
  fields.need_named("pass", parse_pass, bucket.pass);
  fields.need_named("dtype", parse_dtype, bucket.dtype);
  fields.need("head_dim", bucket.head_dim);
  fields.need("head_dim_v", bucket.head_dim_v);
  fields.need("causal", bucket.causal);
  fields.need("p", bucket.p);
  fields.need("has_offset", bucket.has_offset);
  if (const nlohmann::json* score = fields.object("score"))
    fields.fail(read_fields(*score, "bucket.score", bucket.score));
  if (const nlohmann::json* window = fields.object("window"))
    fields.fail(read_window(*window, bucket.window));
  fields.read("varlen", bucket.varlen);
  fields.read("rotary", bucket.rotary);
  fields.read("invariant", bucket.invariant);
  fields.need("alignment", bucket.alignment);
  fields.need_whole("gqa_ratio", 1, kMostSize, bucket.gqa_ratio);
  fields.need("fixed_lengths", bucket.fixed_lengths);
  fields.need_named("determinism", parse_determinism, bucket.determinism);
  fields.need_whole("seq_q", 0, kMostSize, bucket.seq_q);
  fields.need_whole("seq_k", 0, kMostSize, bucket.seq_k);
  fields.need_whole("slices", 0, kMostSize, bucket.slices);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  return bucket;
}

}  // namespace lssar
