// lssar sim: runs a kernel given as PTX on the virtual device, with arguments from .npy files.
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/file.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/number_option.h"
#include "tools/lssar/sim/sim_report.h"
#include "tools/lssar/sim/sim_run.h"
#include "tools/lssar/terminal/exit_code.h"

namespace lssar::command {
namespace {

struct SimOptions {
  std::string ptx, entry, target;
  std::string grid = "1,1,1", block = "1,1,1", cluster = "1,1,1";
  uint32_t shared_bytes = 0;
  std::vector<std::string> arguments;
  uint64_t schedule_seed = 0;
  std::optional<uint64_t> seeds;
  bool all_seeds = false;
  std::string approx = "nearest", async = "by-seed", elect = "lowest";
  int threads = 0;
  uint64_t max_instructions = uint64_t{1} << 33;
  bool fast = false, letter = false, counters = false, json = false;
};

Status parse_dimensions(const char* option, const std::string& text, uint32_t (&dimensions)[3]) {
  std::vector<int64_t> values;
  if (!parse_extents(text, ',', 1, values) || values.size() > 3) {
    return invalid_argument(
        fmt::format("{} {}: allowed are X, X,Y or X,Y,Z, each at least 1", option, text));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] > std::numeric_limits<uint32_t>::max()) {
      return invalid_argument(
          fmt::format("{} {}: {} is more than 32 bits hold", option, text, values[i]));
    }
    dimensions[i] = static_cast<uint32_t>(values[i]);
  }
  return {};
}

template <class T>
struct Choice {
  const char* name;
  T value;
};

template <class T, size_t N>
Status choose(const char* option, const std::string& text, const Choice<T> (&choices)[N],
              T& value) {
  std::string names;
  for (const Choice<T>& choice : choices) {
    if (text == choice.name) {
      value = choice.value;
      return {};
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", choice.name);
  }
  return invalid_argument(fmt::format("{} {}: allowed are {}", option, text, names));
}

// The text after .target, up to a comma.
std::string target_of(const std::string& ptx) {
  const size_t at = ptx.find(".target");
  if (at == std::string::npos) return "";
  const size_t begin = ptx.find_first_not_of(" \t", at + 7);
  if (begin == std::string::npos) return "";
  return ptx.substr(begin, ptx.find_first_of(" \t\r\n,/;", begin) - begin);
}

Result<VirtualOptions> device_options(const SimOptions& options, const std::string& ptx) {
  VirtualOptions device;
  const std::string name = options.target.empty() ? target_of(ptx) : options.target;
  if (name.empty()) {
    return invalid_argument(fmt::format("'{}' is not PTX: it has no .target line", options.ptx));
  }
  Result<Target> target = target_from_name(name);
  if (!target.ok()) {
    if (!options.target.empty()) return target.status().with_context("--target");
    return invalid_argument(fmt::format("'{}': {}", options.ptx, target.status().message()));
  }
  if (target->is_cpu()) {
    return invalid_argument(
        fmt::format("--target: \"{}\": allowed are targets of GPUs, because PTX is theirs", name));
  }
  device.target = std::move(*target);
  static constexpr Choice<ApproxMode> kApprox[] = {{"nearest", ApproxMode::kNearest},
                                                   {"highest", ApproxMode::kHighest},
                                                   {"lowest", ApproxMode::kLowest},
                                                   {"random", ApproxMode::kRandom}};
  LSSAR_RETURN_IF_ERROR(choose("--approx", options.approx, kApprox, device.approx));
  static constexpr Choice<AsyncTiming> kAsync[] = {{"by-seed", AsyncTiming::kBySeed},
                                                   {"latest", AsyncTiming::kLatest},
                                                   {"earliest", AsyncTiming::kEarliest},
                                                   {"random", AsyncTiming::kRandom}};
  LSSAR_RETURN_IF_ERROR(choose("--async", options.async, kAsync, device.async_timing));
  static constexpr Choice<ElectedLane> kElect[] = {{"lowest", ElectedLane::kLowest},
                                                   {"drawn", ElectedLane::kDrawn}};
  LSSAR_RETURN_IF_ERROR(choose("--elect", options.elect, kElect, device.elected_lane));
  device.num_threads = options.threads;
  device.max_block_instructions = options.max_instructions;
  device.strict = !options.fast;
  device.letter = options.letter;
  device.count = options.counters;
  return device;
}

Result<SimLaunch> make_launch(const SimOptions& options) {
  SimLaunch launch;
  launch.entry = options.entry;
  launch.config.shared_bytes = options.shared_bytes;
  LSSAR_RETURN_IF_ERROR(parse_dimensions("--grid", options.grid, launch.config.grid));
  LSSAR_RETURN_IF_ERROR(parse_dimensions("--block", options.block, launch.config.block));
  LSSAR_RETURN_IF_ERROR(parse_dimensions("--cluster", options.cluster, launch.config.cluster));
  LSSAR_ASSIGN_OR_RETURN(launch.image.bytes, read_file(options.ptx));
  LSSAR_ASSIGN_OR_RETURN(launch.device, device_options(options, launch.image.bytes));
  launch.image.target = launch.device.target.name();
  LSSAR_ASSIGN_OR_RETURN(launch.data, load_sim_data(options.arguments));
  return launch;
}

Result<int> sim(const SimOptions& options) {
  LSSAR_ASSIGN_OR_RETURN(const SimLaunch launch, make_launch(options));
  if (options.json && writes_standard_output(launch))
    return invalid_argument("--json: an argument's file goes to standard output, so JSON cannot");
  LSSAR_RETURN_IF_ERROR(check_sim_outputs(launch));
  SimResult result;
  result.with_counters = options.counters;
  bool reported = false;
  const uint64_t begin = options.seeds ? 0 : options.schedule_seed;
  const uint64_t count = options.seeds.value_or(1);
  for (uint64_t i = 0; i < count && (!reported || options.all_seeds); ++i) {
    LSSAR_ASSIGN_OR_RETURN(SimRun run, run_sim(launch, begin + i));
    reported = reported || !run.reports.empty();
    if (!result.runs.empty()) {
      for (const SimDifference& d : compare_sim_runs(launch, result.runs[0], run)) {
        result.differences.push_back(d);
      }
      run.outputs.clear();  // only the first seed's are kept: there may be many
    }
    result.runs.push_back(std::move(run));
  }
  result.written = !reported;
  if (result.written) LSSAR_RETURN_IF_ERROR(write_sim_outputs(launch, result.runs[0]));
  options.json ? print_sim_json(launch, result) : print_sim_text(launch, result);
  return static_cast<int>(reported ? kWrongNumbers : kDone);
}

void add_launch_options(CLI::App& sub, SimOptions& options) {
  sub.add_option("kernel", options.ptx, "the PTX")->required()->option_text("KERNEL.ptx");
  sub.add_option("--entry", options.entry, "the kernel's name")
      ->required()
      ->type_name("NAME")
      ->group("Launch");
  const auto add = [&](const char* name, std::string& value, const char* help) {
    return sub.add_option(name, value, help)->type_name("X,Y,Z")->group("Launch");
  };
  add("--grid", options.grid, "blocks: X, X,Y or X,Y,Z")->capture_default_str();
  add("--block", options.block, "threads of a block")->required();
  add("--cluster", options.cluster, "blocks of a cluster")->capture_default_str();
  add_whole(sub, "--shared", options.shared_bytes, "bytes of dynamic shared memory (default 0)",
            uint32_t{0}, std::numeric_limits<uint32_t>::max())
      ->group("Launch");
  // One value each, because the next word may be the PTX.
  sub.add_option("--arg", options.arguments, "a parameter of the kernel, see below")
      ->type_name("ARG")
      ->group("Launch")
      ->allow_extra_args(false);
}

void add_device_options(CLI::App& sub, SimOptions& options) {
  const char* const group = "Virtual device";
  const auto add = [&](const char* name, std::string& value, const char* values, const char* help) {
    return sub.add_option(name, value, help)->type_name(values)->group(group);
  };
  const auto whole = [&](const char* name, auto& value, auto low, auto high, const char* help) {
    return add_whole(sub, name, value, help, low, high)->group(group);
  };
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  CLI::Option* const seed =
      whole("--schedule-seed", options.schedule_seed, uint64_t{0}, kMost,
            "order of warps and moments of asynchronous operations; 0, the default: in order, as "
            "late as allowed");
  CLI::Option* const seeds = whole("--seeds", options.seeds, uint64_t{1}, uint64_t{1} << 20,
                                   "run seeds 0 to N - 1, up to the first with a report")
                                 ->excludes(seed);
  sub.add_flag("--all-seeds", options.all_seeds, "do not stop at a seed with a report")
      ->group(group)
      ->needs(seeds);
  add("--target", options.target, "ARCH", "whose limits apply (default: the PTX's .target)");
  add("--approx", options.approx, "nearest|highest|lowest|random", "results of .approx")
      ->capture_default_str();
  add("--async", options.async, "latest|earliest|random|by-seed",
      "when asynchronous operations are done")
      ->capture_default_str();
  add("--elect", options.elect, "lowest|drawn",
      "lane that elect.sync elects: the lowest, or drawn by the seed")
      ->capture_default_str();
  whole("--threads", options.threads, 0, 1024,
        "threads that run blocks (default: all of the machine)");
  whole("--max-instructions", options.max_instructions, uint64_t{0}, kMost,
        "warp instructions after which a block is taken for an endless loop");
  CLI::Option* const fast =
      sub.add_flag("--fast", options.fast, "no checks for races, fences and undefined values")
          ->group(group);
  sub.add_flag("--letter", options.letter, "report what only the PTX ISA does not promise, too")
      ->group(group)
      ->excludes(fast);
  sub.add_flag("--counters", options.counters, "count accesses and classes of instructions")
      ->group("Output");
  sub.add_flag("--json", options.json, "one JSON object instead of text")->group("Output");
}

}  // namespace

void add_sim(CLI::App& app, Action* action) {
  auto options = std::make_shared<SimOptions>();
  CLI::App* sub = app.add_subcommand("sim", "Run a PTX kernel on the virtual device and check it");
  add_launch_options(*sub, *options);
  add_device_options(*sub, *options);
  sub->footer("\n" + sim_argument_help() +
              "Outputs are those of the first seed; where anything was reported none is written.\n"
              "\nExample:\n"
              "  lssar sim scale.ptx --entry scale --grid 4 --block 128 \\\n"
              "    --arg in:x.npy:f32 --arg out:y.npy:f32:4x128 --arg f32:0.5\n\n" +
              exit_code_help() + "sim: 1 when something was reported.\n");
  sub->callback([options, action] { *action = [options] { return sim(*options); }; });
}

}  // namespace lssar::command
