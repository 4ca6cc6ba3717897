// Lists of probes: what a file may say, and which field an error names.
#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "tests/probe/probe_fixture.h"
#include "tools/probe/probe_list.h"

namespace lssar::probe {
namespace {

using nlohmann::json;
using test::dq_definition;

class ProbeList : public testing::Test {
 protected:
  ~ProbeList() override { std::filesystem::remove(path_); }

  Result<std::vector<Probe>> read(const json& probes) {
    std::ofstream(path_) << json{{"format", "lssar-probes"}, {"probes", probes}};
    return read_probes(path_);
  }
  // The error of the usual list with one change, after the path.
  std::string error_of(const std::function<void(json&)>& change) {
    json definition = dq_definition();
    change(definition);
    const auto probes = read(json::array({definition}));
    EXPECT_FALSE(probes.ok());
    const std::string text = probes.status().message();
    const size_t at = text.find(path_);
    return at == std::string::npos ? text : text.substr(at + path_.size());
  }

  const std::string path_ = testing::TempDir() + "probes_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ProbeList, HasWhatTheFileSays) {
  json definition = dq_definition();
  definition["settings"][1]["cold_l2"] = false;
  definition["settings"][2]["edits"] = json::array({{{"from", "a"}, {"to", ""}}});
  definition["seconds"] = 2.5;
  const auto probes = read(json::array({definition}));
  ASSERT_TRUE(probes.ok()) << probes.status().to_string();
  const Probe& probe = probes->at(0);
  EXPECT_EQ(probe.name, "dq");
  EXPECT_EQ(probe.problem.pass, Pass::kBackward);
  EXPECT_EQ(probe.sizes, (Sizes{1, 2, 2, 256, 256}));
  EXPECT_EQ(probe.rounds, 5);
  EXPECT_EQ(probe.seconds, 2.5);
  EXPECT_EQ(probe.settings[0].schedule, (json{{"dq_mode", "split"}}));
  EXPECT_TRUE(probe.settings[0].cold_l2);
  EXPECT_FALSE(probe.settings[1].cold_l2);
  EXPECT_EQ(probe.settings[2].edits[0].from, "a");
  EXPECT_EQ(probe.constants[0].name, "ordered_clocks");
  EXPECT_EQ(probe.constants[0].high, 8000);
}

TEST_F(ProbeList, TheHashIsOfTheWholeQuestion) {
  json other = dq_definition();
  other["settings"][1]["cold_l2"] = false;
  const std::string hash = definition_hash(read(json::array({dq_definition()}))->at(0));
  EXPECT_EQ(hash.size(), 16u);
  EXPECT_EQ(definition_hash(read(json::array({dq_definition()}))->at(0)), hash);
  EXPECT_NE(definition_hash(read(json::array({other}))->at(0)), hash);
}

TEST_F(ProbeList, ErrorsNameTheFieldItsValueAndWhatIsAllowed) {
  EXPECT_EQ(error_of([](json& d) { d["rounds"] = 0; }),
            ": probes[0].rounds = 0: allowed are 1 to 1000");
  EXPECT_EQ(error_of([](json& d) { d["seconds"] = 61; }),
            ": probes[0].seconds = 61: allowed are 0 to 60");
  EXPECT_EQ(error_of([](json& d) { d["settings"] = json::array(); }),
            ": probes[0].settings: allowed is at least one");
  EXPECT_EQ(error_of([](json& d) { d["settings"][2]["name"] = "split"; }),
            ": probes[0].settings[2].name = split: another setting has that name");
  EXPECT_EQ(error_of([](json& d) { d["constants"][0]["high"] = 0; }),
            ": probes[0].constants[0].high = 0: allowed is more than low, which is 0");
  EXPECT_EQ(
      error_of([](json& d) { d["constants"][0]["name"] = "clocks"; }),
      ": probes[0].constants[0].name = clocks: allowed are block_clocks, cluster_wait, "
      "hidden_alone, l2_bytes_per_clock, ordered_clocks, ring_clocks, stream_power, sum_cost");
  EXPECT_EQ(error_of([](json& d) { d["name"] = "a b"; }),
            ": probes[0].name = a b: allowed are a to z, 0 to 9 and _");
  EXPECT_NE(error_of([](json& d) { d["repeat"] = 3; }).find("repeat"), std::string::npos);
  EXPECT_NE(error_of([](json& d) { d.erase("length"); }).find("length"), std::string::npos);
  EXPECT_NE(error_of([](json& d) { d["problem"]["head_dim"] = 12; }).find("head_dim"),
            std::string::npos);
}

TEST_F(ProbeList, NamesAreNotTwice) {
  const auto probes = read(json::array({dq_definition(), dq_definition()}));
  ASSERT_FALSE(probes.ok());
  EXPECT_EQ(probes.status().message(), path_ + ": probes[1].name = dq: probes[0] has that name");
}

}  // namespace
}  // namespace lssar::probe
