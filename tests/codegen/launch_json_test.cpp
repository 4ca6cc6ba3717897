// Launches and sizes in JSON: as captures and the tuner's workers have them.
#include "codegen/launch_json.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "codegen/emit.h"
#include "codegen/target.h"

namespace lssar {
namespace {

using nlohmann::json;

TEST(LaunchJson, EveryStepSurvives) {
  for (const char* name : {"sm_80", "sm_90a", "x86-64-v3"}) {
    for (Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
      Problem problem;
      problem.pass = pass;
      const Target target = target_from_name(name).value();
      const auto kernel = emit_kernel(problem, default_schedule(problem, target), target);
      ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
      for (const LaunchStep& step : kernel->steps) {
        const auto back = launch_step_from_json(json::parse(to_json(step).dump()));
        ASSERT_TRUE(back.ok()) << back.status().to_string();
        EXPECT_EQ(*back, step);
      }
    }
  }
}

TEST(LaunchJson, ErrorsNameFieldValueAndAllowed) {
  LaunchStep step;
  step.entry = "lssar_forward";
  step.rows_per_block = step.threads = 128;
  step.maps = {{MapTensor::kQ, 64, 64}};
  const json sound = to_json(step);
  ASSERT_TRUE(launch_step_from_json(sound).ok());
  struct Bad {
    const char* path;
    json value;
    const char* message;
  };
  for (const Bad& bad :
       {Bad{"/threads", 0, "step.threads = 0: allowed are 1 to 1024"},
        Bad{"/cluster", "x", "step.cluster = \"x\": allowed is a whole number of 32 bits"},
        Bad{"/grid_rows", "rows", "step.grid_rows = \"rows\": allowed are queries, keys,"},
        Bad{"/most_rows", -1, "step.most_rows = -1: allowed are 0 to 65536"},
        Bad{"/packed_rows", 4, "step.packed_rows = 4: allowed are 0 to 0"},
        Bad{"/maps/0/box_cols", 257, "map.box_cols = 257: allowed are 1 to 256"},
        Bad{"/maps/0/tensor", "w", "map.tensor = \"w\": allowed are q, k, v,"},
        Bad{"/blocks", 1, "step.blocks is not a field"}}) {
    json changed = sound;
    changed[json::json_pointer(bad.path)] = bad.value;
    const std::string message = launch_step_from_json(changed).status().message();
    EXPECT_EQ(message.rfind(bad.message, 0), 0u) << message;
  }
  json less = sound;
  less.erase("entry");
  EXPECT_EQ(launch_step_from_json(less).status().message(), "step.entry is missing");
}

TEST(LaunchJson, SizesSurviveAndAreBounded) {
  const Sizes sizes = {2, 8, 4, 100, 300};
  EXPECT_EQ(*sizes_from_json(to_json(sizes), "sizes"), sizes);
  json changed = to_json(sizes);
  changed["heads"] = -1;
  EXPECT_EQ(sizes_from_json(changed, "record.sizes").status().message(),
            "record.sizes.heads = -1: allowed are 0 to 2147483647");
}

}  // namespace
}  // namespace lssar
