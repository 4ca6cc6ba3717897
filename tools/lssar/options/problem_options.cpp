#include "tools/lssar/options/problem_options.h"

#include <cstdlib>
#include <limits>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "autotune/search/tuner.h"
#include "score/score_text.h"
#include "tools/lssar/options/number_option.h"
#include "tools/lssar/options/options_file.h"

namespace lssar::command {
namespace {

// A size from the .npy files that the user may also have given, by an option or in the file of
// --problem, where 0 leaves a length open.
template <typename T>
Status check_agrees(const char* option, const std::optional<T>& given, const char* field,
                    const nlohmann::json& file, int64_t in_files) {
  const auto complain = [&](const std::string& name, int64_t value) {
    return invalid_argument(
        fmt::format("{} = {}: the .npy files have {}; leave it out or give files of that size",
                    name, value, in_files));
  };
  if (given) return *given == in_files ? Status() : complain(option, *given);
  const int64_t value = file.value(field, int64_t{0});
  return value == 0 || value == in_files ? Status() : complain(field, value);
}

}  // namespace

void ProblemOptions::add_to(CLI::App& app, bool takes_ranges) {
  takes_ranges_ = takes_ranges;
  const char* const group = "Problem";
  const auto add = [&](const char* name, auto& value, const char* values, const char* help) {
    return app.add_option(name, value, help)->type_name(values)->group(group);
  };
  // The limits are the type's; those of the problem are checked with its other fields.
  const auto whole = [&](const char* name, auto& value, const char* field, const char* help) {
    using T = typename std::decay_t<decltype(value)>::value_type;
    add_whole(app, name, value, help, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(),
              allowed_values(field))
        ->group(group);
  };
  add("--pass", pass_,
      takes_ranges ? "forward|forward-train|backward|row-sums|weighted-sum"
                   : "forward|forward-train|backward",
      "what is computed (default forward)");
  whole("--head-dim", head_dim_, "head_dim", "d of q and k: 8 to 256 in steps of 8 (default 64)");
  whole("--head-dim-v", head_dim_v_, "head_dim_v", "dv of v and o (default: as --head-dim)");
  whole("--seq", seq_q_, "seq_q",
        "queries per head; 0 or not given: a kernel for run-time lengths");
  whole("--seq-k", seq_k_, "seq_k", "keys per head (default: as --seq)");
  whole("--batch", batch_, "batch", "batch entries (default 1)");
  whole("--heads", heads_, "heads", "query heads (default 1)");
  whole("--kv-heads", kv_heads_, "kv_heads",
        "heads of k and v; divides --heads (default: as --heads)");
  whole(
      "--p", p_, "p",
      "power of the re-weighting, 1 to 1024; 0 = none, LSSA (default 15; with another --score 0)");
  add("--score", score_, "NAME|FIELD=VALUE,...",
      "score function: softmax, sigmoid, lssar (default), or its fields, as "
      "'phi=relu(x)^2,normalizer=sum_abs' (docs/fields.md)");
  whole("--alignment", alignment_, "alignment",
        "bytes that divide every pointer and stride: 16 (default), 8, 4, 2 as far as elements fit");
  add_parsed(app, "--offset", "offset of the re-weighting, >= 0 (default 1)",
             [this](const std::string& text) { return parse_number(text, &offset_.emplace()); })
      ->group(group);
  add("--dtype", dtype_, "bf16|fp16|fp32", "of q, k, v and o (default bf16)");
  CLI::Option* const causal =
      app.add_flag("--causal", causal_, "row i sees keys up to i, aligned at the end")
          ->group(group);
  app.add_flag("--no-causal", no_causal_, "every row sees every key (default)")
      ->group(group)
      ->excludes(causal);
  add_parsed(app, "--window",
             "keys seen before and after a row's position; -1: all (default -1,-1)",
             [this](const std::string& text) { return read_window(text); })
      ->type_name("L,R")
      ->group(group);
  whole("--window-sinks", window_sinks_, "window_sinks",
        "the first N keys, which neither --window nor --chunk hides (default 0)");
  whole("--prefix", prefix_, "prefix", "the first N keys, which every row sees (default 0)");
  whole("--chunk", chunk_, "chunk",
        "rows see keys of their own chunk of N positions; 0: no chunks (default)");
  whole("--rotary-dim", rotary_dim_, "rotary_dim",
        "the first N columns of q and k are turned by their positions (default 0)");
  app.add_flag("--rotary-interleaved", rotary_interleaved_,
               "of columns 2c and 2c + 1; else of c and c + N/2")
      ->group(group);
  app.add_flag("--varlen", varlen_,
               "sequences of their own lengths; --seq and --seq-k are the most that one has")
      ->group(group);
  app.add_flag("--invariant", invariant_,
               "a row has the same bits whatever else the call computes")
      ->group(group);
  app.add_flag("--runtime-lengths{both}", runtime_lengths_,
               "a kernel for run-time lengths, whatever --seq says; =q or =k: of one of them")
      ->group(group)
      ->option_text("[=q|k|both]")
      ->check(CLI::IsMember({"q", "k", "both"}));
  add("--problem", problem_file_, "FILE",
      "JSON file of the problem's fields; options given win over it");
}

Status ProblemOptions::read_window(const std::string& text) {
  const size_t comma = text.find(',');
  const auto read = [&](const std::string& part, std::optional<int64_t>& limit) {
    return parse_whole(part, int64_t{-1}, int64_t{std::numeric_limits<int32_t>::max()},
                       &limit.emplace());
  };
  if (comma == std::string::npos || !read(text.substr(0, comma), window_left_).ok() ||
      !read(text.substr(comma + 1), window_right_).ok())
    return invalid_argument("allowed are two numbers, L,R, from -1 to 2147483647");
  return {};
}

Result<Problem> ProblemOptions::described(nlohmann::json* file) const {
  Problem problem;
  if (!problem_file_.empty()) {
    LSSAR_ASSIGN_OR_RETURN(*file, read_options_file(problem_file_));
    Result<Problem> from_file = problem_from_json(*file);
    if (!from_file.ok()) return from_file.status().with_context(problem_file_);
    problem = *from_file;
  }
  if (pass_) {
    const Result<Pass> pass = parse_pass(*pass_);
    if (!pass.ok() && !takes_ranges_)
      return invalid_argument(
          fmt::format("pass = \"{}\": allowed are forward, forward-train and backward", *pass_));
    LSSAR_ASSIGN_OR_RETURN(problem.pass, pass);
  }
  if (dtype_) {
    LSSAR_ASSIGN_OR_RETURN(problem.dtype, parse_dtype(*dtype_));
  }
  const auto set = [](auto& field, const auto& option) {
    if (option) field = *option;
  };
  set(problem.head_dim, head_dim_);
  set(problem.head_dim_v, head_dim_v_ ? head_dim_v_ : head_dim_);
  if (varlen_) problem.varlen = true;
  set(problem.seq_q, seq_q_);
  set(problem.seq_k, seq_k_ || problem.varlen ? seq_k_ : seq_q_);
  set(problem.batch, batch_);
  set(problem.heads, heads_);
  set(problem.kv_heads, kv_heads_ ? kv_heads_ : heads_);
  if (score_) {
    LSSAR_ASSIGN_OR_RETURN(problem.score, parse_score(*score_));
    if (!file->contains("p") && *score_ != "lssar") problem.p = 0;
  }
  set(problem.p, p_);
  set(problem.offset, offset_);
  set(problem.alignment, alignment_);
  if (causal_ || no_causal_) problem.causal = causal_;
  set(problem.window_left, window_left_);
  set(problem.window_right, window_right_);
  set(problem.window_sinks, window_sinks_);
  set(problem.prefix, prefix_);
  set(problem.chunk, chunk_);
  set(problem.rotary_dim, rotary_dim_);
  if (rotary_interleaved_) problem.rotary_interleaved = true;
  if (invariant_) problem.invariant = true;
  return problem;
}

bool ProblemOptions::is_given() const {
  return !problem_file_.empty() || pass_ || score_ || dtype_ || head_dim_ || head_dim_v_ || p_ ||
         alignment_ || seq_q_ || seq_k_ || batch_ || heads_ || kv_heads_ || offset_ || causal_ ||
         no_causal_ || window_left_ || window_sinks_ || prefix_ || chunk_ || rotary_dim_ ||
         rotary_interleaved_ || varlen_ || invariant_ || !runtime_lengths_.empty();
}

Result<Problem> ProblemOptions::problem() const {
  nlohmann::json file = nlohmann::json::object();
  LSSAR_ASSIGN_OR_RETURN(Problem problem, described(&file));
  LSSAR_RETURN_IF_ERROR(validate(problem));
  open_lengths(&problem);
  return problem;
}

void ProblemOptions::open_lengths(Problem* problem) const {
  if (runtime_lengths_ == "q" || runtime_lengths_ == "both") problem->seq_q = 0;
  if (runtime_lengths_ == "k" || runtime_lengths_ == "both") problem->seq_k = 0;
}

Problem ProblemOptions::of_sequences(const Problem& problem, const Sizes& longest) const {
  Problem result = problem;
  result.varlen = true;
  if (!problem.varlen) {
    result.seq_q = longest.seq_q;
    result.seq_k = longest.seq_k;
  }
  open_lengths(&result);
  return result;
}

Result<Sizes> ProblemOptions::sizes() const {
  nlohmann::json file = nlohmann::json::object();
  LSSAR_ASSIGN_OR_RETURN(const Problem problem, described(&file));
  LSSAR_RETURN_IF_ERROR(validate(problem));
  if (!seq_q_ && problem.seq_q == 0) {
    return invalid_argument("seq: not given; this command needs the number of queries (--seq N)");
  }
  if (!seq_k_ && !seq_q_ && problem.seq_k == 0) {
    return invalid_argument("seq_k: not given; this command needs the number of keys (--seq-k N)");
  }
  return Sizes{problem.batch, problem.heads, problem.kv_heads, problem.seq_q, problem.seq_k};
}

Sizes ProblemOptions::sizes_to_choose_by(const Problem& problem) const {
  const Result<Sizes> given = sizes();
  if (!given.ok()) return typical_sizes(problem);
  return {problem.batch, problem.heads, problem.kv_heads,
          problem.seq_q != 0 ? problem.seq_q : given->seq_q,
          problem.seq_k != 0 ? problem.seq_k : given->seq_k};
}

Result<Problem> ProblemOptions::problem_of_files(const Sizes& sizes, int head_dim,
                                                 int head_dim_v) const {
  nlohmann::json file = nlohmann::json::object();
  LSSAR_ASSIGN_OR_RETURN(Problem problem, described(&file));
  LSSAR_RETURN_IF_ERROR(check_agrees("--head-dim", head_dim_, "head_dim", file, head_dim));
  LSSAR_RETURN_IF_ERROR(check_agrees("--head-dim-v", head_dim_v_, "head_dim_v", file, head_dim_v));
  if (!problem.varlen) {
    LSSAR_RETURN_IF_ERROR(check_agrees("--seq", seq_q_, "seq_q", file, sizes.seq_q));
    LSSAR_RETURN_IF_ERROR(check_agrees("--seq-k", seq_k_, "seq_k", file, sizes.seq_k));
    problem.seq_q = sizes.seq_q;
    problem.seq_k = sizes.seq_k;
  }
  LSSAR_RETURN_IF_ERROR(check_agrees("--batch", batch_, "batch", file, sizes.batch));
  LSSAR_RETURN_IF_ERROR(check_agrees("--heads", heads_, "heads", file, sizes.heads));
  LSSAR_RETURN_IF_ERROR(check_agrees("--kv-heads", kv_heads_, "kv_heads", file, sizes.kv_heads));
  problem.head_dim = head_dim;
  problem.head_dim_v = head_dim_v;
  problem.batch = sizes.batch;
  problem.heads = sizes.heads;
  problem.kv_heads = sizes.kv_heads;
  LSSAR_RETURN_IF_ERROR(validate(problem));
  // No kernel has a length of 0: 0 stands for run-time lengths.
  open_lengths(&problem);
  return problem;
}

void ExecutionOptions::add_to(CLI::App& app) {
  device_option_ =
      app.add_option("--device", device_,
                     "auto: a GPU if there is one, else cpu if it has the kernels, else virtual; "
                     "record computes nothing; LSSAR_DEVICE changes the default")
          ->type_name("auto|cuda|cpu|virtual|record")
          ->group("Execution")
          ->capture_default_str();
  app.add_option("--compiler", compiler_, "auto: NVRTC if it is found")
      ->type_name("auto|nvrtc|llvm")
      ->group("Execution")
      ->capture_default_str();
  app.add_flag("-q,--quiet", quiet_, "do not say what compiled, what ran and how long it took")
      ->group("Execution");
}

Result<EngineOptions> ExecutionOptions::engine_options(const std::string& target) const {
  EngineOptions options;
  const char* const named = device_option_->count() == 0 ? std::getenv("LSSAR_DEVICE") : nullptr;
  const bool is_named = named != nullptr && *named != '\0';
  Result<DeviceChoice> device = parse_device_choice(is_named ? named : device_);
  if (!device.ok() && is_named) return device.status().with_context("LSSAR_DEVICE");
  LSSAR_ASSIGN_OR_RETURN(options.device, std::move(device));
  LSSAR_ASSIGN_OR_RETURN(options.compiler, parse_compiler_choice(compiler_));
  options.target = target;
  return options;
}

}  // namespace lssar::command
