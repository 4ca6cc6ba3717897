// The log's lines of a prepare and an execute, done again by the command.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>

#include "autotune/table/tuning_table.h"
#include "codegen/target.h"
#include "reference/random_inputs.h"
#include "score/score_text.h"
#include "tests/capi/run_capi.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

struct Message {
  int level;
  std::string text;
};

// The messages of a scope.
class Log {
 public:
  explicit Log(int level) { lssar_set_log_callback(keep, this, level); }
  ~Log() { lssar_set_log_callback(nullptr, nullptr, LSSAR_LOG_ERROR); }

  std::vector<Message> starting_with(const std::string& start) const {
    const std::lock_guard lock(mutex_);
    std::vector<Message> found;
    for (const Message& message : messages_) {
      if (message.text.rfind(start, 0) == 0) found.push_back(message);
    }
    return found;
  }

 private:
  static void keep(int level, const char* message, void* user) {
    auto* log = static_cast<Log*>(user);
    const std::lock_guard lock(log->mutex_);
    log->messages_.push_back({level, message});
  }

  mutable std::mutex mutex_;
  std::vector<Message> messages_;
};

// The words of the line's command after "lssar", as a shell takes them.
std::vector<std::string> command_of(const std::string& line) {
  std::vector<std::string> words(1);
  const size_t begin = line.find(": lssar ");
  if (begin == std::string::npos) return {};
  bool quoted = false;
  for (const char c : line.substr(begin + 8)) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// "key 0123...".
std::string key_of(const std::string& text) {
  const size_t begin = text.find("key ");
  return begin == std::string::npos ? "no key in: " + text
                                    : text.substr(begin, text.find(':', begin) - begin);
}

Problem small_problem() {
  Problem problem;
  problem.causal = true;
  problem.dtype = DType::kFp32;
  problem.head_dim = 16;
  problem.head_dim_v = 8;
  return problem;
}

std::vector<std::string> prepare_lines(const Problem& problem, uint32_t passes,
                                       const std::string& schedule_json = "") {
  Result<ContextPtr> context = open_context(LSSAR_DEVICE_VIRTUAL);
  if (!context.ok()) return {context.status().to_string()};
  const Log log(LSSAR_LOG_INFO);
  const lssar_problem c_problem = to_c(problem, passes);
  lssar_plan_options options = {};
  options.struct_size = sizeof(options);
  options.schedule_json = schedule_json.c_str();
  lssar_plan* made = nullptr;
  EXPECT_EQ(lssar_plan_create(context->get(), &c_problem, &options, &made), LSSAR_STATUS_OK)
      << lssar_last_error_detail();
  const PlanPtr plan(made);
  EXPECT_EQ(lssar_plan_prepare(plan.get()), LSSAR_STATUS_OK) << lssar_last_error_detail();
  std::vector<std::string> lines;
  for (const Message& message : log.starting_with("prepare: ")) {
    EXPECT_EQ(message.level, LSSAR_LOG_INFO);
    lines.push_back(message.text);
  }
  return lines;
}

void expect_same_key(const std::string& line) {
  const CommandRunner command;
  const CommandResult result = command.run(command_of(line));
  EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.err;
  EXPECT_EQ(key_of(result.out), key_of(line)) << line;
}

TEST(PrepareLine, OfEitherKernelOfAPass) {
  const std::vector<std::string> lines = prepare_lines(small_problem(), LSSAR_PASS_FORWARD);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(key_of(lines[0]), key_of(lines[1]));
  for (const std::string& line : lines) expect_same_key(line);
}

TEST(PrepareLine, OfAScoreFunction) {
  Problem problem = small_problem();
  problem.p = 0;
  problem.score = *parse_score("phi=relu(x)^2 + 0.01*x,normalizer=sum_abs,psi=x / N,qk_norm=false");
  for (const uint32_t pass : {LSSAR_PASS_FORWARD, LSSAR_PASS_BACKWARD}) {
    const std::vector<std::string> lines = prepare_lines(problem, pass);
    ASSERT_FALSE(lines.empty());
    for (const std::string& line : lines) expect_same_key(line);
  }
}

TEST(PlanWarns, OfAScoreFunctionWithoutAValue) {
  Problem problem = small_problem();
  problem.p = 0;
  problem.score = *parse_score("phi=log(x),normalizer=sum_abs");
  Result<ContextPtr> context = open_context(LSSAR_DEVICE_VIRTUAL);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const Log log(LSSAR_LOG_WARNING);
  const lssar_problem c_problem = to_c(problem, LSSAR_PASS_FORWARD);
  lssar_plan* plan = nullptr;
  ASSERT_EQ(lssar_plan_create(context->get(), &c_problem, nullptr, &plan), LSSAR_STATUS_OK);
  lssar_plan_destroy(plan);
  EXPECT_EQ(log.starting_with("score.phi = log(x): has no finite float32 value at x = 0").size(),
            1u);
}

TEST(PrepareLine, OfSequences) {
  Problem problem = small_problem();
  problem.varlen = true;
  for (const int64_t queries : {0, 3}) {
    problem.seq_q = queries;
    const std::vector<std::string> lines = prepare_lines(problem, LSSAR_PASS_FORWARD);
    ASSERT_FALSE(lines.empty());
    for (const std::string& line : lines) expect_same_key(line);
  }
}

TEST(PrepareLine, OfLengthsThatAreFixedAndEveryFieldOfTheProblem) {
  Problem problem = small_problem();
  problem.seq_q = 24;
  problem.seq_k = 40;
  problem.batch = 3;
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.causal = false;
  problem.p = 3;
  problem.offset = 0.1 + 0.2;  // every digit counts
  const std::vector<std::string> lines = prepare_lines(problem, LSSAR_PASS_BACKWARD);
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines[0].find("--offset 0.30000000000000004"), std::string::npos) << lines[0];
  expect_same_key(lines[0]);
}

TEST(PrepareLine, OfAScheduleThatIsGiven) {
  const std::string schedule = R"({"forward": {"block_cols": 32, "stages": 1}})";
  const std::vector<std::string> lines =
      prepare_lines(small_problem(), LSSAR_PASS_FORWARD, schedule);
  ASSERT_EQ(lines.size(), 2u);
  const std::vector<std::string> untuned = prepare_lines(small_problem(), LSSAR_PASS_FORWARD);
  ASSERT_EQ(untuned.size(), 2u);
  for (const std::string& line : lines) {
    EXPECT_NE(line.find("schedule: given"), std::string::npos) << line;
    EXPECT_NE(line.find("\"stages\":1"), std::string::npos)
        << line;  // what differs from the default
    for (const std::string& other : untuned) EXPECT_NE(key_of(line), key_of(other));
    expect_same_key(line);
  }
}

TEST(ExecuteLine, OfTheCallsSizesAndTheKernelItTook) {
  Result<ContextPtr> context = open_context(LSSAR_DEVICE_VIRTUAL);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  Problem problem = small_problem();
  problem.heads = 4;
  problem.kv_heads = 2;
  const Sizes sizes = {2, 4, 2, 20, 36};
  RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 1);
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  options.layout = Layout::kUnaligned;
  const Log log(LSSAR_LOG_TRACE);
  const Result<CapiOutputs> outputs =
      run_capi(context->get(), problem, sizes, {random.q, random.k, random.v, {}}, options);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  const std::vector<Message> lines = log.starting_with("execute: ");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].level, LSSAR_LOG_TRACE);
  const std::string& line = lines[0].text;
  EXPECT_NE(line.find("--seq 20 --seq-k 36 --runtime-lengths"), std::string::npos) << line;
  EXPECT_NE(line.find("--alignment 4"), std::string::npos) << line;

  const CommandRunner command;
  const CommandResult result = command.run(command_of(line), {"LSSAR_LOG=info"});
  EXPECT_EQ(result.exit_code, 0) << line << "\n" << result.out << result.err;
  EXPECT_NE(result.err.find(key_of(line) + ":"), std::string::npos) << line << "\n" << result.err;
}

TEST(ExecuteLine, OnlyAtTheHighestLevel) {
  Result<ContextPtr> context = open_context(LSSAR_DEVICE_VIRTUAL);
  ASSERT_TRUE(context.ok()) << context.status().to_string();
  const Problem problem = small_problem();
  const Sizes sizes = {1, 1, 1, 8, 8};
  RandomInputs random = random_inputs(problem, sizes, InputKind::kGauss, 1);
  const Log log(LSSAR_LOG_DEBUG);
  CapiOptions options;
  options.passes = LSSAR_PASS_FORWARD;
  const Result<CapiOutputs> outputs =
      run_capi(context->get(), problem, sizes, {random.q, random.k, random.v, {}}, options);
  ASSERT_TRUE(outputs.ok()) << outputs.status().to_string();
  EXPECT_EQ(log.starting_with("execute: ").size(), 0u);
  EXPECT_EQ(log.starting_with("prepare: ").size(), 2u);
}

TEST(ErrorLine, OfACallThatFails) {
  const Log log(LSSAR_LOG_ERROR);
  EXPECT_EQ(lssar_context_create(nullptr, nullptr), LSSAR_STATUS_INVALID_ARGUMENT);
  const std::vector<Message> lines = log.starting_with("context = NULL");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].level, LSSAR_LOG_ERROR);
}

TEST(LogVariable, WordsAndThoseThatAreNone) {
  const CommandRunner command;
  const auto messages = [&](const char* level) {
    const CommandResult result =
        command.run({"prepare", "--device", "virtual", "--head-dim", "16", "--dtype", "fp32"},
                    {std::string("LSSAR_LOG=") + level});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  EXPECT_EQ(messages("none"), "");
  EXPECT_EQ(messages(""), "");
  EXPECT_EQ(messages("loud"),
            "lssar warning: LSSAR_LOG = loud: allowed are none, error, warning, info, debug, "
            "trace\n");
  EXPECT_NE(messages("info").find("lssar info: prepare: "), std::string::npos);
}

// A record for a problem of 64 queries and keys, in a table of its own.
void write_record(const std::string& table, Problem* problem) {
  problem->head_dim = problem->head_dim_v = 32;
  problem->seq_q = problem->seq_k = 64;
  TuningRecord record;
  record.problem = *problem;
  record.sizes = {.batch = 1, .heads = 1, .kv_heads = 1, .seq_q = 64, .seq_k = 64};
  record.bucket = bucket_of(*problem, record.sizes, Determinism::kRepeatable);
  const Target target = *target_from_name("sm_80");
  record.schedule = default_schedule(*problem, target);
  record.schedule.softplus_degree = 6;
  record.source_hash = *schedule_source_hash(*problem, record.schedule, target);
  record.machine = {"virtual", "sm_80", 0, "", "nvrtc 13.0.88"};
  record.chosen = true;
  record.ms = 0.5;
  record.time = "2026-11-21T13:16:13Z";
  const Status status = append_records(table, {record});
  ASSERT_TRUE(status.ok()) << status.message();
}

TEST(Schedule, OfTheCommandIsThePlans) {
  const CommandRunner command;
  const std::string table = command.path("tuning.jsonl");
  Problem problem;
  write_record(table, &problem);
  for (const std::string& known : {table, std::string("none")}) {
    lssar_context_options context_options = {};
    context_options.struct_size = sizeof(context_options);
    context_options.device = LSSAR_DEVICE_VIRTUAL;
    context_options.tuning_table = known.c_str();
    lssar_context* context = nullptr;
    ASSERT_EQ(lssar_context_create(&context_options, &context), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    const ContextPtr owner(context);
    const lssar_problem c_problem = to_c(problem, LSSAR_PASS_FORWARD);
    lssar_plan* plan = nullptr;
    ASSERT_EQ(lssar_plan_create(context, &c_problem, nullptr, &plan), LSSAR_STATUS_OK)
        << lssar_last_error_detail();
    const PlanPtr plan_owner(plan);
    lssar_schedule_info info = {};
    info.struct_size = sizeof(info);
    ASSERT_EQ(lssar_plan_get_schedule(plan, LSSAR_PASS_FORWARD, &info), LSSAR_STATUS_OK);

    const CommandResult result = command.run({"prepare", "--json", "--device", "virtual",
                                              "--head-dim", "32", "--seq", "64", "--table", known});
    const auto prepared = nlohmann::json::parse(result.out, nullptr, false);
    ASSERT_TRUE(prepared.is_object()) << result.err;
    EXPECT_EQ(prepared["schedule"], nlohmann::json::parse(info.schedule_json));
    EXPECT_EQ(prepared["schedule_reason"], info.reason);
    EXPECT_EQ(prepared["schedule_origin"], info.origin == LSSAR_ORIGIN_PREDICTED ? "predicted"
                                           : info.origin == LSSAR_ORIGIN_DEFAULT ? "default"
                                                                                 : "");
    EXPECT_EQ(prepared["schedule_from"], known == table ? "tuned" : "default");
  }
}

}  // namespace
}  // namespace lssar
