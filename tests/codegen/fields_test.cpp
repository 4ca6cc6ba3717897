// The lists of fields (codegen/problem_fields.h, codegen/schedule_fields.h) say what is so, and
// docs/fields.md says what they say. LSSAR_UPDATE_DOCS=1 writes its tables instead of comparing.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/field_json.h"
#include "codegen/emit.h"
#include "codegen/problem_fields.h"
#include "codegen/schedule_fields.h"

namespace lssar {
namespace {

struct Sample {
  int number = 0;
  Tiling tiling;
  DType dtype = DType::kBf16;
  double real = 0;
};
static_assert(num_members<Sample>() == 4, "a member that is missing in a list is noticed");
static_assert(num_members<Tiling>() == 4, "one that has members counts once in its struct only");

template <typename S>
std::string read_by(unsigned readers) {
  if (std::is_same_v<S, Problem> || std::is_same_v<S, ScoreFunction>)
    return readers == kReadByCalls ? "calls" : "kernels";
  if (readers == ~0u) return "all";
  if (readers == kReadByForward) return "forward";
  return readers == kReadByBackward ? "backward" : "training, backward";
}

template <typename S>
std::string table() {
  std::string text = "| field | allowed | read by | meaning |\n| --- | --- | --- | --- |\n";
  for_each_field<S>([&]<typename T>(const Field<S, T>& field) {
    text += fmt::format("| `{}` | {} | {} | {} |\n", field.name,
                        has_fields<T> ? "an object" : field.allowed(), read_by<S>(field.readers),
                        field.meaning);
  });
  return text;
}

// Each table stands between "<!-- fields of NAME -->" and "<!-- end -->".
void put_table(std::string& page, const std::string& name, const std::string& table) {
  const std::string begin = "<!-- fields of " + name + " -->\n";
  const size_t start = page.find(begin);
  ASSERT_NE(start, std::string::npos) << name;
  const size_t end = page.find("<!-- end -->", start);
  ASSERT_NE(end, std::string::npos) << name;
  page.replace(start + begin.size(), end - start - begin.size(), table);
}

TEST(FieldsDocs, HoldWhatTheListsSay) {
  std::ifstream in(LSSAR_FIELDS_DOC);
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::string made = page;
  put_table(made, "problem", table<Problem>());
  put_table(made, "score", table<ScoreFunction>());
  put_table(made, "schedule", table<Schedule>());
  put_table(made, "tiling", table<Tiling>());
  put_table(made, "hopper", table<HopperOptions>());
  put_table(made, "cpu", table<CpuOptions>());
  if (std::getenv("LSSAR_UPDATE_DOCS") != nullptr) {
    std::ofstream(LSSAR_FIELDS_DOC) << made;
  } else {
    EXPECT_EQ(page, made) << "LSSAR_UPDATE_DOCS=1 makes them anew";
  }
}

// Calls visit(name, range, readers of the schedule's field) for every number of the schedule.
template <typename S, typename Visit>
void for_each_number(const std::string& prefix, unsigned readers, const Visit& visit) {
  for_each_field<S>([&]<typename T>(const Field<S, T>& field) {
    const unsigned both = readers & field.readers;
    if constexpr (has_fields<T>) {
      for_each_number<T>(prefix + field.name + ".", both, visit);
    } else if constexpr (std::is_same_v<T, int>) {
      EXPECT_FALSE(field.allowed().empty()) << prefix << field.name;
      if (field.range.step != 0) visit(prefix + field.name, field.range, both);
    }
  });
}

// Values below and above a range are refused, by every variant and every pass that reads the field.
TEST(Fields, NumbersOutsideTheirRangeAreRefused) {
  int refused = 0;
  for (const std::string variant : {"portable", "hopper", "cpu"}) {
    const bool is_cpu = variant == "cpu";
    for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      Problem problem;
      problem.pass = pass;
      problem.head_dim = problem.head_dim_v = 256;
      const Target target = target_from_name(is_cpu ? "x86-64-v3" : "sm_90a").value();
      const Schedule base = schedule_for(problem, target, {{"variant", variant}}).value();
      ASSERT_TRUE(validate(base, problem, target).ok());
      for_each_number<Schedule>(
          "", ~0u, [&](const std::string& name, const WholeRange& range, unsigned readers) {
            if ((readers & readers_of(pass)) == 0) return;
            const bool is_hoppers = name.starts_with("hopper.");
            if (name.starts_with("cpu.") != is_cpu && name != "softplus_degree") return;
            if (is_hoppers && base.variant != Variant::kHopper) return;
            if (name == "hopper.score_cols" && pass == Pass::kBackward) return;  // pass 1's
            const ScheduleLeaf* leaf = find_leaf(name);
            ASSERT_NE(leaf, nullptr) << name;
            for (const int64_t value : {range.low - range.step, range.high + range.step}) {
              Schedule changed = base;
              leaf->set(changed, static_cast<int>(value));
              EXPECT_FALSE(validate(changed, problem, target).ok()) << to_string(changed);
              ++refused;
            }
          });
    }
  }
  EXPECT_GT(refused, 60);
}

TEST(Fields, ALeafIsTheFieldOfItsName) {
  const nlohmann::json flat = to_json(Schedule()).flatten();
  for (const auto& [path, value] : flat.items()) {
    std::string name = path.substr(1);
    if (const size_t slash = name.find('/'); slash != std::string::npos) name[slash] = '.';
    const ScheduleLeaf* leaf = find_leaf(name);
    ASSERT_NE(leaf, nullptr) << name;
    EXPECT_EQ(leaf->values().empty(), value.is_number()) << name;
    Schedule changed;
    const int other = leaf->get(changed) == 0 ? 1 : 0;
    leaf->set(changed, other);
    EXPECT_EQ(leaf->get(changed), other) << name;
    nlohmann::json now = to_json(changed).flatten();
    EXPECT_NE(now[path], value) << name;
    now[path] = value;
    EXPECT_EQ(now, flat) << name;  // nothing else
  }
  EXPECT_EQ(find_leaf("hopper"), nullptr);
  EXPECT_EQ(find_leaf("hopper.tile"), nullptr);
}

std::string source_of(const Problem& problem, const char* target_name) {
  const Target target = target_from_name(target_name).value();
  Schedule schedule = default_schedule(problem, target);
  schedule.load_path = LoadPath::kPlain;  // of any alignment
  return source_without_header(emit_kernel(problem, schedule, target).value().source);
}

// A kernel is compiled once for all problems that differ in what calls alone read.
TEST(Fields, SourcesHoldWhatKernelsRead) {
  const auto is_in_source = [](nlohmann::json base, const nlohmann::json& change) {
    const char* const target = change.contains("invariant") ? "x86-64-v3" : "sm_80";
    const std::string before = source_of(problem_from_json(base).value(), target);
    base.update(change);
    return source_of(problem_from_json(base).value(), target) != before;
  };
  for_each_field<Problem>([&]<typename T>(const Field<Problem, T>& field) {
    const std::string name = field.name;
    if (name == "score" || name == "alignment") return;  // one has kernels; the load path's
    nlohmann::json change = {{name, 16}};
    if (std::is_same_v<T, bool>) change[name] = true;
    if (name == "offset") change[name] = 0.5;
    if (name == "pass") change[name] = "weighted-sum";
    if (name == "dtype") change[name] = "fp16";
    if (name == "kv_heads") change["heads"] = 32;
    nlohmann::json base = nlohmann::json::object();
    if (name == "window_sinks" || name == "prefix")
      base["window_left"] = 8;  // alone they do nothing
    if (name == "rotary_interleaved") base["rotary_dim"] = 16;
    EXPECT_EQ(is_in_source(base, change), field.readers != kReadByCalls) << name;
  });
}

}  // namespace
}  // namespace lssar
