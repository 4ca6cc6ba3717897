#include "tests/autotune/candidate_fixture.h"

#include <nlohmann/json.hpp>

namespace lssar::test {
namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

CandidateSpec planted(const RunnerTask& task, const std::string& id,
                      const std::vector<SourceEdit>& edits) {
  CandidateSpec candidate = edited(task, good_candidate(task), edits);
  candidate.id = id;
  return candidate;
}

constexpr const char* kPlaceBlock =
    "    const QueryRows tile = place_block(rows);\n    queries.base";
constexpr const char* kSkipRows = "if (row[half] >= queries_total) continue;";

}  // namespace

RunnerTask small_task(Pass pass, const std::string& target) {
  RunnerTask task;
  task.problem.causal = true;
  task.problem.pass = pass;
  task.problem.heads = 2;
  task.problem.kv_heads = 1;
  task.sizes.batch = 1;
  task.sizes.heads = 2;
  task.sizes.kv_heads = 1;
  task.sizes.seq_q = task.sizes.seq_k = 256;
  task.device = DeviceChoice::kVirtual;
  task.target = target;
  return task;
}

Target target_of(const RunnerTask& task) {
  const Result<Target> target = target_from_name(task.target);
  EXPECT_TRUE(target.ok()) << target.status().to_string();
  return target.ok() ? *target : Target{};
}

CandidateSpec good_candidate(const RunnerTask& task, Variant variant) {
  CandidateSpec candidate;
  candidate.id = "good";
  const Result<Schedule> schedule =
      schedule_for(task.problem, target_of(task),
                   {{"variant", variant == Variant::kPortable ? "portable" : "hopper"}});
  EXPECT_TRUE(schedule.ok()) << schedule.status().to_string();
  if (schedule.ok()) candidate.schedule = *schedule;
  return candidate;
}

CandidateSpec edited(const RunnerTask& task, const CandidateSpec& candidate,
                     const std::vector<SourceEdit>& edits) {
  CandidateSpec changed = candidate;
  Result<KernelSource> source = emit_kernel(task.problem, candidate.schedule, target_of(task));
  EXPECT_TRUE(source.ok()) << source.status().to_string();
  if (!source.ok()) return changed;
  for (const SourceEdit& edit : edits) {
    EXPECT_EQ(count_of(source->source, edit.from), 1u) << edit.from;
    const size_t at = source->source.find(edit.from);
    if (at != std::string::npos) source->source.replace(at, edit.from.size(), edit.to);
  }
  changed.source = std::move(*source);
  return changed;
}

CandidateSpec off_by_one_at_the_causal_edge(const RunnerTask& task) {
  return planted(task, "off by one", {{"row + 1 + shift", "row + 2 + shift"}});
}

CandidateSpec writes_a_row_too_many(const RunnerTask& task) {
  return planted(task, "a row too many", {{kSkipRows, "if (row[half] > queries_total) continue;"}});
}

CandidateSpec never_writes_the_last_row(const RunnerTask& task) {
  return planted(task, "no last row",
                 {{kSkipRows, "if (row[half] >= queries_total - 1) continue;"}});
}

CandidateSpec races(const RunnerTask& task) {
  // Every warp writes the first word of the query tile, when nobody needs it any more.
  return planted(task, "race",
                 {{"    ring.finish();\n",
                   "    ring.finish();\n    block_barrier();\n"
                   "    asm volatile(\"st.shared.f32 [%0], 0f3F800000;\" ::\"r\"(queries.base) : "
                   "\"memory\");\n"}});
}

CandidateSpec follows_the_clock(const RunnerTask& task) {
  const std::string store = "store_pair<Config::kIsAligned, Element>(out + col, o0, o1);";
  return planted(
      task, "clock",
      {{store,
        "unsigned long long now;\n"
        "        asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(now));\n"
        "        const float noise = row[half] == 5 ? (now >> 4) % 64 * 3e-4f : 0.0f;\n"
        "        store_pair<Config::kIsAligned, Element>(out + col, o0 * (1.0f + noise), o1);"}});
}

CandidateSpec never_ends(const RunnerTask& task) {
  return planted(task, "endless",
                 {{kPlaceBlock,
                   std::string("    for (volatile int i = 0; i >= 0;) {\n    }\n") + kPlaceBlock}});
}

CandidateSpec traps(const RunnerTask& task) {
  return planted(task, "trap", {{kPlaceBlock, std::string("    __trap();\n") + kPlaceBlock}});
}

CandidateSpec does_not_compile(const RunnerTask& task) {
  return planted(task, "no C++", {{kPlaceBlock, std::string("    nonsense;\n") + kPlaceBlock}});
}

void expect_reason(const std::string& reason, const std::string& part) {
  EXPECT_NE(reason.find(part), std::string::npos) << reason;
}

}  // namespace lssar::test
