#include "autotune/space/schedule_set.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "codegen/schedule_fields.h"

namespace lssar {
namespace {

using nlohmann::json;

// The schedule as it is, and with each of its fields at each other value.
std::vector<Schedule> neighbours(const Schedule& base) {
  std::vector<Schedule> all = {base};
  const json fields = to_json(base).flatten();
  for (const auto& [path, value] : fields.items()) {
    json changed = fields;
    std::string name = path.substr(1);
    std::replace(name.begin(), name.end(), '/', '.');
    json values = find_leaf(name)->values();
    if (value.is_number()) values.push_back(value.get<int>() + 1);
    for (const json& other : values) {
      if (other == value) continue;
      changed[path] = other;
      all.push_back(*schedule_from_json(changed.unflatten(), base));
    }
  }
  return all;
}

TEST(ScheduleSet, TellsEveryFieldApart) {
  ScheduleSet set;
  const std::vector<Schedule> all = neighbours(Schedule());
  EXPECT_GT(all.size(), 35u);
  for (const Schedule& schedule : all) EXPECT_TRUE(set.insert(schedule)) << to_string(schedule);
  for (const Schedule& schedule : all) EXPECT_FALSE(set.insert(schedule)) << to_string(schedule);
  EXPECT_EQ(set.size(), all.size());
}

TEST(ScheduleSet, NumbersSchedulesInTheOrderOfInsertion) {
  ScheduleSet set;
  EXPECT_FALSE(set.find(Schedule()).has_value());
  constexpr int kMany = 5000;  // more than it begins with room for
  Schedule schedule;
  for (int i = 0; i < kMany; ++i) {
    schedule.hopper.head_group = i % 1000 + 1;
    schedule.hopper.stagger = i / 1000 + 1;
    ASSERT_TRUE(set.insert(schedule)) << i;
  }
  for (int i = 0; i < kMany; ++i) {
    schedule.hopper.head_group = i % 1000 + 1;
    schedule.hopper.stagger = i / 1000 + 1;
    ASSERT_EQ(set.find(schedule), size_t(i));
  }
  schedule.softplus_degree = 8;
  EXPECT_FALSE(set.find(schedule).has_value());
}

}  // namespace
}  // namespace lssar
