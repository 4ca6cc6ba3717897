#include "tests/golden/feature_case.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "score/score_text.h"

namespace lssar {
namespace {

// ---- the values of each feature, cheap ones first

struct Window {
  const char* name;
  int64_t left, right, sinks, prefix, chunk;
};
constexpr Window kWindows[] = {
    {"all", -1, -1, 0, 0, 0},   {"left", 20, -1, 0, 0, 0},   {"ahead", 17, 9, 0, 0, 0},
    {"sinks", 13, -1, 3, 0, 0}, {"prefix", -1, 2, 0, 11, 0}, {"chunk", -1, -1, 0, 0, 31},
    {"mixed", 12, 5, 2, 7, 37},
};

struct LengthsKind {
  const char* name;
  LengthsGiven given;
};
constexpr LengthsKind kLengthsKinds[] = {
    {"packed", LengthsGiven::kInCall},    // cu_seqlens
    {"roomy", LengthsGiven::kInCall},     // cu_seqlens, and seqused leaves out the ends
    {"padded", LengthsGiven::kInCall},    // seqused alone
    {"cache", LengthsGiven::kInCall},     // packed queries, padded keys
    {"appended", LengthsGiven::kInCall},  // the same, with new keys
    {"batch", LengthsGiven::kInSizes},   {"fixed", LengthsGiven::kInProblem},
};
constexpr std::string_view kAppended = "appended";

// What computes a call: also the kernels that a row is about. Where Hopper's refuse something,
// sm_90a has portable ones, which are the same at every target; those of sm_80 stand for them.
constexpr FeatureDevice kDevices[] = {
    {"cpu", LSSAR_DEVICE_CPU, LSSAR_COMPILER_AUTO, "", FeatureKernels::kUsual},
    {"few_cpu", LSSAR_DEVICE_CPU, LSSAR_COMPILER_AUTO, "", FeatureKernels::kFewQueries},
    {"invariant_cpu", LSSAR_DEVICE_CPU, LSSAR_COMPILER_AUTO, "", FeatureKernels::kInvariant},
    {"nvrtc_sm_80", LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_NVRTC, "sm_80", FeatureKernels::kUsual},
    {"llvm_sm_80", LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_LLVM, "sm_80", FeatureKernels::kUsual},
    {"few_nvrtc_sm_80", LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_NVRTC, "sm_80",
     FeatureKernels::kFewQueries},
    {"few_llvm_sm_90a", LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_LLVM, "sm_90a",
     FeatureKernels::kFewQueries},
    {"invariant_nvrtc_sm_90a", LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_NVRTC, "sm_90a",
     FeatureKernels::kInvariant},
    {"nvrtc_hopper", LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_NVRTC, "sm_90a", FeatureKernels::kHopper},
    {"llvm_hopper", LSSAR_DEVICE_VIRTUAL, LSSAR_COMPILER_LLVM, "sm_90a", FeatureKernels::kHopper},
};

struct Score {
  const char* name;
  const char* text;
};
constexpr Score kScores[] = {
    {"softplus", "lssar"},  // LSSA where the power is 0, else LSSAR
    {"softmax", "softmax"},
    {"magnitudes", "phi=relu(x)^2,normalizer=sum_abs,scale=log_dim_log_length"},
    {"psi", "softmax,psi=(x - b) / N"},
    {"changed", "softmax,soft_cap=3,alibi=per_head"},
};

struct Dims {
  const char* name;
  int qk, v;
};
constexpr Dims kDims[] = {
    {"d16", 16, 16}, {"d64", 64, 64}, {"d24_v40", 24, 40}, {"d40_v16", 40, 16}, {"d128", 128, 128}};

struct Heads {
  const char* name;
  int64_t q, kv;
};
constexpr Heads kHeads[] = {{"h1", 1, 1}, {"h2", 2, 2}, {"h3_of_1", 3, 1}, {"h4_of_2", 4, 2}};

struct NamedLayout {
  const char* name;
  Layout layout;
};
constexpr NamedLayout kLayouts[] = {{"rows", Layout::kLengthMajor},
                                    {"heads", Layout::kContiguous},
                                    {"apart", Layout::kPadded},
                                    {"unaligned", Layout::kUnaligned}};

struct NamedDtype {
  const char* name;
  DType dtype;
};
constexpr NamedDtype kDtypes[] = {
    {"bf16", DType::kBf16}, {"fp32", DType::kFp32}, {"fp16", DType::kFp16}};

struct NamedPass {
  const char* name;
  Pass pass;
};
constexpr NamedPass kPasses[] = {
    {"forward", Pass::kForward}, {"train", Pass::kForwardTrain}, {"backward", Pass::kBackward}};

struct Power {
  const char* name;
  int p;
};
constexpr Power kPowers[] = {{"p0", 0}, {"p3", 3}, {"p15", 15}};

// Rotary positions, of all columns or of some.
struct Rotary {
  const char* name;
  int dim;  // kAllColumns: head_dim
  bool interleaved;
};
constexpr int kAllColumns = -1;
constexpr Rotary kRotaries[] = {
    {"still", 0, false}, {"halves", kAllColumns, false}, {"neighbours", 12, true}};

struct Flag {
  const char* name;
  bool is_on;
};
constexpr Flag kCausals[] = {{"full", false}, {"causal", true}};
constexpr Flag kSinks[] = {{"nosink", false}, {"sink", true}};

// How dq is summed, and tiles that hold the queries of all heads that share keys.
struct NamedSchedule {
  const char* name;
  const char* json;
};
constexpr NamedSchedule kSchedules[] = {{"ordered", ""},
                                        {"split", R"({"dq_mode": "split"})"},
                                        {"atomic", R"({"dq_mode": "atomic"})"},
                                        {"packed", R"({"pack_gqa": true})"}};

template <typename Value, size_t kCount>
FeatureFactor factor_of(const char* name, const Value (&values)[kCount]) {
  FeatureFactor factor{name, {}};
  for (const Value& value : values) factor.values.push_back(value.name);
  return factor;
}

bool is_exponential(const Score& score) { return std::string(score.text).starts_with("softmax"); }
bool has_psi(const Score& score) {
  return std::string(score.text).find("psi=") != std::string::npos;
}

// ---- lengths

Side rows_of(Lengths lengths, bool is_packed, Lengths rows = {}) {
  return {std::move(lengths), is_packed, std::move(rows)};
}

// Rows of no sequence behind each.
Lengths with_room(const Lengths& lengths, int first) {
  Lengths rows;
  for (size_t b = 0; b < lengths.size(); ++b)
    rows.push_back(lengths[b] + static_cast<int32_t>(first + b) % 4);
  return rows;
}

// With rotary positions no sequence has more queries than keys.
Lengths with_positions(const Lengths& keys, const Lengths& queries, bool is_rotary) {
  Lengths lengths = keys;
  for (size_t b = 0; is_rotary && b < lengths.size(); ++b)
    lengths[b] = std::max(keys[b], queries[b]);
  return lengths;
}

std::pair<Side, Side> same_lengths(int32_t q, int32_t k) {
  return {rows_of({q, q}, false), rows_of({k, k}, false)};
}

// Few queries are as many in all calls, because the problem states them.
std::vector<std::pair<Side, Side>> rectangular_calls(LengthsGiven given, int number, bool is_rotary,
                                                     bool has_few_queries) {
  constexpr std::pair<int32_t, int32_t> kLengths[] = {{65, 97}, {1, 131}, {67, 31}, {64, 64}};
  constexpr std::pair<int32_t, int32_t> kFew[] = {{1, 700}, {5, 131}, {3, 129}, {16, 300}};
  const auto [q, k] = (has_few_queries ? kFew : kLengths)[number % std::size(kLengths)];
  const auto call = [&](int32_t q, int32_t k) {
    return same_lengths(q, is_rotary ? std::max(q, k) : k);
  };
  if (given == LengthsGiven::kInProblem) return {call(q, k)};
  if (has_few_queries) return {call(q, k), call(q, 5), call(q, 0)};
  return {call(q, k), call(0, 5), call(31, 0)};
}

std::pair<Side, Side> sequences_call(const std::string& kind, int number, bool is_rotary,
                                     bool has_few_queries) {
  struct Both {
    Lengths q, k;
  };
  const Both kLengths[] = {{{31, 0, 65, 1}, {37, 5, 65, 0}},
                           {{64, 2, 0, 13}, {97, 64, 0, 31}},
                           {{67, 3, 31}, {31, 1, 131}}};
  const Both kFew[] = {
      {{1, 3, 0, 5}, {300, 5, 65, 131}}, {{2, 1, 5}, {257, 128, 129}}, {{15, 0, 1}, {300, 9, 700}}};
  Both lengths = (has_few_queries ? kFew : kLengths)[number % std::size(kLengths)];
  if (kind == "cache" && !has_few_queries) lengths = {{1, 2, 0, 5}, {131, 64, 65, 0}};
  lengths.k = with_positions(lengths.k, lengths.q, is_rotary);
  if (kind == "cache" || kind == kAppended) {
    const int32_t room = *std::max_element(lengths.k.begin(), lengths.k.end());
    return {rows_of(lengths.q, true), rows_of(lengths.k, false, Lengths(lengths.k.size(), room))};
  }
  if (kind == "packed") return {rows_of(lengths.q, true), rows_of(lengths.k, true)};
  const bool is_packed = kind == "roomy";
  return {rows_of(lengths.q, is_packed, with_room(lengths.q, 1)),
          rows_of(lengths.k, is_packed, with_room(lengths.k, 2))};
}

Problem problem_of(const FactorRow& row) {
  Problem problem;
  const Window& window = kWindows[row[kWindowFeature]];
  problem.window_left = window.left;
  problem.window_right = window.right;
  problem.window_sinks = window.sinks;
  problem.prefix = window.prefix;
  problem.chunk = window.chunk;
  problem.causal = kCausals[row[kCausalFeature]].is_on;
  problem.dtype = kDtypes[row[kDtypeFeature]].dtype;
  problem.head_dim = kDims[row[kDimsFeature]].qk;
  problem.head_dim_v = kDims[row[kDimsFeature]].v;
  problem.heads = kHeads[row[kHeadsFeature]].q;
  problem.kv_heads = kHeads[row[kHeadsFeature]].kv;
  problem.p = kPowers[row[kPowerFeature]].p;
  const Rotary& rotary = kRotaries[row[kRotaryFeature]];
  problem.rotary_dim = rotary.dim == kAllColumns ? problem.head_dim : rotary.dim;
  problem.rotary_interleaved = rotary.interleaved;
  problem.invariant = kDevices[row[kDeviceFeature]].kernels == FeatureKernels::kInvariant;
  problem.score = parse_score(kScores[row[kScoreFeature]].text).value();
  if (kSinks[row[kSinkFeature]].is_on) problem.score.sink = Sink::kPerHead;
  return problem;
}

// ---- what the library refuses

// The value of a feature; null where none is chosen yet. Such a feature refuses nothing.
template <typename Value, size_t kCount>
const Value* chosen(const FactorRow& row, Feature feature, const Value (&values)[kCount]) {
  return row[feature] == kAnyValue ? nullptr : &values[row[feature]];
}

bool allows_scores(const FactorRow& row) {
  const Score* score = chosen(row, kScoreFeature, kScores);
  const Power* power = chosen(row, kPowerFeature, kPowers);
  const Flag* sink = chosen(row, kSinkFeature, kSinks);
  if (score == nullptr) return true;
  if (sink != nullptr && sink->is_on && !is_exponential(*score)) return false;
  return power == nullptr || power->p == 0 || !has_psi(*score);
}

bool allows_schedules(const FactorRow& row) {
  const FeatureDevice* device = chosen(row, kDeviceFeature, kDevices);
  const NamedPass* pass = chosen(row, kPassFeature, kPasses);
  const NamedSchedule* schedule = chosen(row, kScheduleFeature, kSchedules);
  if (pass == nullptr || pass->pass != Pass::kBackward || schedule == nullptr) return true;
  if (device == nullptr) return true;
  const std::string name = schedule->name;
  const bool is_cpu = device->device == LSSAR_DEVICE_CPU;
  const bool is_invariant = device->kernels == FeatureKernels::kInvariant;
  if (name == "atomic") return !is_cpu && !is_invariant;
  return name != "split" || !is_cpu || !is_invariant;
}

bool allows_hopper(const FactorRow& row) {
  const NamedDtype* dtype = chosen(row, kDtypeFeature, kDtypes);
  const NamedLayout* layout = chosen(row, kLayoutFeature, kLayouts);
  const LengthsKind* lengths = chosen(row, kLengthsFeature, kLengthsKinds);
  const NamedSchedule* schedule = chosen(row, kScheduleFeature, kSchedules);
  if (dtype != nullptr && dtype->dtype == DType::kFp32) return false;
  if (layout != nullptr && layout->layout == Layout::kUnaligned) return false;
  if (lengths == nullptr || lengths->given != LengthsGiven::kInCall) return true;
  return schedule == nullptr || std::string_view(schedule->name) != "packed";
}

bool allows_kernels(const FactorRow& row) {
  const FeatureDevice* device = chosen(row, kDeviceFeature, kDevices);
  const bool is_hopper = device != nullptr && device->kernels == FeatureKernels::kHopper;
  if (is_hopper && !allows_hopper(row)) return false;
  const LengthsKind* lengths = chosen(row, kLengthsFeature, kLengthsKinds);
  const bool appends = lengths != nullptr && lengths->name == kAppended;
  const NamedPass* pass = chosen(row, kPassFeature, kPasses);
  const bool is_forward = pass == nullptr || pass->pass == Pass::kForward;
  return is_forward || !(appends || (device != nullptr && device->has_few_queries()));
}

// The keys of a few queries are divided into more chunks than by default.
const char* schedule_json(const FactorRow& row, const FeatureCase& c) {
  const bool is_gpu = c.device.device != LSSAR_DEVICE_CPU;
  if (is_gpu && c.device.has_few_queries()) return R"({"split_keys": 128, "pack_gqa": true})";
  return kSchedules[row[kScheduleFeature]].json;
}

}  // namespace

const std::vector<FeatureFactor>& feature_factors() {
  static const std::vector<FeatureFactor> factors = {factor_of("device", kDevices),
                                                     factor_of("window", kWindows),
                                                     factor_of("lengths", kLengthsKinds),
                                                     factor_of("score", kScores),
                                                     factor_of("dims", kDims),
                                                     factor_of("heads", kHeads),
                                                     factor_of("layout", kLayouts),
                                                     factor_of("dtype", kDtypes),
                                                     factor_of("pass", kPasses),
                                                     factor_of("power", kPowers),
                                                     factor_of("causal", kCausals),
                                                     factor_of("sink", kSinks),
                                                     factor_of("schedule", kSchedules),
                                                     factor_of("rotary", kRotaries)};
  return factors;
}

bool allows_features(const FactorRow& row) {
  return allows_scores(row) && allows_schedules(row) && allows_kernels(row);
}

const std::vector<FactorRow>& feature_rows() {
  static const std::vector<FactorRow> rows = [] {
    std::vector<int> counts;
    for (const FeatureFactor& factor : feature_factors())
      counts.push_back(static_cast<int>(factor.values.size()));
    return covering_rows(counts, allows_features);
  }();
  return rows;
}

std::string feature_name(const FactorRow& row) {
  std::string name;
  for (size_t i = 0; i < row.size(); ++i)
    name += (i == 0 ? "" : "_") + feature_factors()[i].values[row[i]];
  return name;
}

FeatureCase feature_case(const FactorRow& row, int number) {
  const LengthsKind& kind = kLengthsKinds[row[kLengthsFeature]];
  FeatureCase c;
  c.problem = problem_of(row);
  c.lengths = kind.given;
  c.appends = kind.name == kAppended;
  c.device = kDevices[row[kDeviceFeature]];
  const bool is_rotary = c.problem.rotary_dim != 0, is_few = c.device.has_few_queries();
  c.calls = kind.given == LengthsGiven::kInCall
                ? std::vector{sequences_call(kind.name, number, is_rotary, is_few)}
                : rectangular_calls(kind.given, number, is_rotary, is_few);
  c.pass = kPasses[row[kPassFeature]].pass;
  c.layout = kLayouts[row[kLayoutFeature]].layout;
  c.alignment = c.layout == Layout::kUnaligned ? dtype_bytes(c.problem.dtype) : kFastAlignment;
  c.schedule_json = schedule_json(row, c);
  c.seed = static_cast<uint64_t>(number);
  return c;
}

}  // namespace lssar
