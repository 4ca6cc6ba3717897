#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "autotune/table/table_lines.h"
#include "cache/entry.h"
#include "cache/pack.h"
#include "lssar/lssar.h"
#include "tests/autotune/sample_records.h"
#include "tests/fuzz/complain.h"
#include "tests/fuzz/made_up.h"
#include "tests/fuzz/plan_input.h"
#include "tests/fuzz/readers.h"

namespace lssar::test {
namespace {

using Seeds = std::vector<std::pair<std::string, std::string>>;

constexpr Pass kPasses[] = {Pass::kForward, Pass::kForwardTrain, Pass::kBackward};
constexpr DType kDTypes[] = {DType::kFp16, DType::kBf16, DType::kFp32};

Problem problem_of(Pass pass, DType dtype, int dim) {
  Problem problem;
  problem.causal = true;
  problem.pass = pass;
  problem.dtype = dtype;
  problem.head_dim = dim;
  problem.head_dim_v = dim;
  return problem;
}

// ---- cache

// Alone, and each with the key that it is packed under.
std::vector<std::pair<Sha256Digest, std::string>> encoded_entries() {
  const CacheEntry entries[] = {{"", ""},
                                {"{}", "a payload too short to compress"},
                                {"{\"image\":\"ptx\"}", std::string(3000, 'p') + "tail"},
                                {sample_metadata(), std::string("\x7f"
                                                                "ELF") +
                                                        std::string(400, 'e')}};
  std::vector<std::pair<Sha256Digest, std::string>> list;
  for (const CacheEntry& entry : entries) {
    const Sha256Digest key = sha256(entry.payload);
    list.emplace_back(key, *encode_entry(key, entry));
  }
  return list;
}

std::string packed(size_t count) {
  const auto entries = encoded_entries();
  const std::string path =
      std::filesystem::temp_directory_path() / ("lssar-" + unique_file_name() + ".pack");
  Result<PackWriter> writer = PackWriter::create(path);
  if (!writer.ok()) complain("a pack", writer.status());
  for (size_t i = 0; i < count; ++i) {
    if (const Status s = writer->add(entries[i].first, entries[i].second); !s.ok())
      complain("a pack", s);
  }
  if (const Status s = writer->finish(); !s.ok()) complain("a pack", s);
  const Result<std::string> bytes = read_file(path);
  ::unlink(path.c_str());
  if (!bytes.ok()) complain("a pack", bytes.status());
  return *bytes;
}

Seeds cache_seeds() {
  Seeds seeds;
  for (const auto& [key, bytes] : encoded_entries()) {
    seeds.emplace_back("entry_" + std::to_string(seeds.size()), bytes);
  }
  for (size_t count = 0; count <= 4; ++count) {
    seeds.emplace_back("pack_" + std::to_string(count), packed(count));
  }
  return seeds;
}

// ---- table

Seeds table_seeds() {
  TuningRecord failed = sample_record(a100(), 512, sample_problem(Pass::kBackward));
  failed.verdict = Verdict::kWrong;
  failed.chosen = false;
  failed.error = std::numeric_limits<double>::quiet_NaN();
  failed.reason = "o[3] = nan, \"\xff\"";
  TuningRecord predicted = sample_record(h200(), 1000, sample_problem(Pass::kForwardTrain));
  predicted.evidence = Evidence::kPredicted;
  predicted.time = "";
  std::string all = header_line();
  Seeds seeds;
  for (const TuningRecord& record : {sample_record(), failed, predicted}) {
    seeds.emplace_back("record_" + std::to_string(seeds.size()), record_text(record));
    all += record_line(record);
  }
  seeds.emplace_back("lines", all);
  seeds.emplace_back("torn", all.substr(0, all.size() / 2));
  std::string newer = header_line();
  newer.insert(newer.size() - 2, "7");
  seeds.emplace_back("newer", newer + record_line(predicted));
  return seeds;
}

// ---- schedule

Seeds schedule_seeds() {
  Seeds seeds;
  const auto add = [&](const nlohmann::json& target, const Problem& problem,
                       const nlohmann::json& schedule) {
    const nlohmann::json document = {
        {"target", target}, {"problem", to_json(problem)}, {"schedule", schedule}};
    seeds.emplace_back("schedule_" + std::to_string(seeds.size()), document.dump());
  };
  for (const char* name : {"sm_80", "sm_90a", "sm_120"}) {
    const Target target = *target_from_name(name);
    for (const Pass pass : kPasses) {
      for (const DType dtype : kDTypes) {
        const Problem problem = problem_of(pass, dtype, dtype == DType::kFp32 ? 200 : 64);
        add(name, problem, nlohmann::json::object());
        add(name, problem, to_json(default_schedule(problem, target, DqMode::kAtomic)));
      }
    }
  }
  Problem fixed = problem_of(Pass::kForward, DType::kBf16, 128);
  fixed.seq_q = fixed.seq_k = 512;
  fixed.p = 0;
  fixed.alignment = 2;
  add(to_json(*target_from_name("sm_90a")), fixed, {{"load_path", "plain"}});
  add("sm_90a", problem_of(Pass::kForward, DType::kBf16, 128),
      {{"hopper", {{"cluster", 2}, {"norm_form", "scores"}, {"weights_from", "shared"}}}});
  return seeds;
}

// ---- plan

lssar_tensor contiguous(uint64_t address, int64_t heads, int64_t length, int64_t dim) {
  return {reinterpret_cast<void*>(address), {heads * length * dim, length * dim, dim}};
}

lssar_call valid_call(int64_t dim) {
  constexpr uint64_t kApart = uint64_t{1} << 32;
  constexpr int64_t kLength = 256;
  lssar_call call = {};
  call.struct_size = sizeof(call);
  call.sizes = {2, 4, 2, kLength, kLength};
  uint64_t at = 0;
  for (lssar_tensor* one : {&call.q, &call.o, &call.grad_o, &call.grad_q})
    *one = contiguous(at += kApart, 4, kLength, dim);
  for (lssar_tensor* one : {&call.k, &call.v, &call.grad_k, &call.grad_v})
    *one = contiguous(at += kApart, 2, kLength, dim);
  call.saved_o = reinterpret_cast<float*>(at += kApart);
  call.saved_stats = reinterpret_cast<float*>(at += kApart);
  call.saved_x = reinterpret_cast<void*>(at += kApart);
  call.workspace = reinterpret_cast<void*>(at += kApart);
  return call;
}

PlanInput valid_plan(uint32_t passes, int32_t dtype, int64_t length) {
  PlanInput input;
  lssar_problem problem = {};
  problem.struct_size = sizeof(problem);
  problem.passes = passes;
  problem.dtype = dtype;
  problem.head_dim = 64;
  problem.seq_q = problem.seq_k = length;
  problem.causal = 1;
  problem.p = 15;
  problem.offset = 1;
  lssar_plan_options options = {};
  options.struct_size = sizeof(options);
  lssar_tune_options tune = {};
  tune.struct_size = sizeof(tune);
  lssar_context_options context = {};
  context.struct_size = sizeof(context);
  const lssar_call call = valid_call(64);
  std::memcpy(input.problem, &problem, sizeof problem);
  std::memcpy(input.options, &options, sizeof options);
  std::memcpy(input.tune, &tune, std::min(sizeof input.tune, sizeof tune));
  std::memcpy(input.context_options, &context, sizeof context);
  std::memcpy(input.sizes, &call.sizes, sizeof call.sizes);
  std::memcpy(input.call, &call, sizeof call);
  return input;
}

std::string bytes_of(const PlanInput& input) {
  return {reinterpret_cast<const char*>(&input), sizeof input};
}

Seeds plan_seeds() {
  Seeds seeds;
  const auto add = [&](PlanInput input, int gives, const std::string& text) {
    input.gives = static_cast<uint8_t>(gives);
    seeds.emplace_back("plan_" + std::to_string(seeds.size()), bytes_of(input) + text);
  };
  for (uint8_t context = 0; context < 2; ++context) {
    for (const int32_t dtype : {LSSAR_DTYPE_FP16, LSSAR_DTYPE_FP32}) {
      PlanInput input = valid_plan(7, dtype, context * 512);
      input.context = context;
      input.pass = LSSAR_PASS_BACKWARD;
      add(input, 0, "");
      add(input, kGivesOptions | kGivesText, "{}");
      add(input, kGivesOptions | kGivesText, R"({"softplus_degree":6,"dq_mode":"atomic"})");
      const lssar_tuning tune = LSSAR_TUNING_TUNE;
      std::memcpy(input.options + offsetof(lssar_plan_options, tuning), &tune, sizeof tune);
      add(input, kGivesOptions | kGivesTune | kGivesWorker | kGivesPastTheEnd, "worker");
    }
  }
  const PlanInput forward = valid_plan(1, LSSAR_DTYPE_BF16, 0);
  const Problem problem = problem_of(Pass::kForward, DType::kBf16, 64);
  const Schedule schedule = default_schedule(problem, *target_from_name("sm_80"));
  add(forward, kGivesOptions | kGivesText, to_json(schedule).dump());
  add(forward, kGivesContext | kGivesText, "sm_90a");
  add(forward, kGivesContext, "");
  for (uint8_t plan = 0; plan < std::size(kPreparedDims); ++plan) {
    for (uint8_t pass = 0; pass < std::size(kPasses); ++pass) {
      PlanInput input = forward;
      const lssar_call call = valid_call(kPreparedDims[plan]);
      std::memcpy(input.call, &call, sizeof call);
      input.plan = plan;
      input.pass = pass;
      add(input, kGivesCall | kGivesWorkspace, "");
    }
  }
  return seeds;
}

}  // namespace

Seeds reader_seeds(std::string_view reader) {
  if (reader == "cache") return cache_seeds();
  if (reader == "capture") return capture_seeds();
  if (reader == "table") return table_seeds();
  if (reader == "schedule") return schedule_seeds();
  return plan_seeds();
}

}  // namespace lssar::test
