#include "autotune/schedule_set.h"

#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lssar {
namespace {

using nlohmann::json;

const json kNames = {{"/variant", "hopper"},
                     {"/load_path", "plain"},
                     {"/dq_mode", "ordered"},
                     {"/epsilon", "pass"},
                     {"/hopper/weights_from", "shared"},
                     {"/hopper/store_path", "tma"},
                     {"/hopper/sum_path", "tma"},
                     {"/hopper/norm_form", "operands"},
                     {"/hopper/evaluator", "full"}};

// The schedule with each of its fields changed by itself, and as it is.
std::vector<Schedule> neighbours(const Schedule& base) {
  std::vector<Schedule> all = {base};
  const json fields = to_json(base).flatten();
  for (const auto& [path, value] : fields.items()) {
    json changed = fields;
    if (value.is_boolean()) {
      changed[path] = !value.get<bool>();
    } else if (value.is_number()) {
      changed[path] = value.get<int>() + 1;
    } else {
      changed[path] = kNames.at(path);
    }
    all.push_back(*schedule_from_json(changed.unflatten(), base));
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

TEST(ScheduleSet, NumbersThemAsTheyCameHoweverMany) {
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
