// Figures of trained models: what examples/train/looking.py writes is read, and anything that the
// page could not draw is refused with the name of the field.
#include "inspect/page/attention_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/inspect/report_samples.h"

namespace lssar {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string error_of(const json& figures) {
  const Result<json> models = models_of_figures(figures, "f.json");
  return models.ok() ? "" : models.status().message();
}

TEST(AttentionFigures, AreThoseOfTheExample) {
  const Result<json> models = models_of_figures(sample_figures(), "f.json");
  ASSERT_TRUE(models.ok()) << models.status().message();
  EXPECT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[1]["name"], "lssa");
}

TEST(AttentionFigures, MayLackLossAndMaps) {
  json figures = sample_figures();
  figures["models"][0]["maps"] = json::array();
  for (json& point : figures["models"][0]["points"]) point.erase("loss");
  EXPECT_EQ(error_of(figures), "");
}

// A place in the sample, what is put there (null: it is removed), and the error.
struct Wrong {
  const char* place;
  json value;
  const char* error;
};

TEST(AttentionFigures, ErrorsNameTheField) {
  const Wrong cases[] = {
      {"/format", 2, "f.json.format = 2: allowed are 1 to 1"},
      {"/models", json::array(), "f.json.models: allowed is a list with a model"},
      {"/models/0/heads", nullptr, "f.json.models[0].heads is missing"},
      {"/models/0/heads", 3, "models[0].points[0].entropy[0]: allowed is a list of 3"},
      {"/models/0/layers", "two", "models[0].layers = \"two\""},
      {"/models/0/colour", "red", "models[0].colour is not a field"},
      {"/models/1/name", "sdpa", "models[1].name = sdpa"},
      {"/models/0/points", json::array(), "models[0].points: allowed is a list with a point"},
      {"/models/0/points/1/length", 16, "points[1].length = 16: allowed are lengths above 16"},
      {"/models/0/points/0/live", nullptr, "points[0].live is missing"},
      {"/models/0/points/0/live/1/0", 1.5, "points[0].live[1][0]: allowed are numbers from 0 to 1"},
      {"/models/0/points/0/first/0/0", "0.1", "first[0][0]: allowed are numbers"},
      {"/models/0/points/0/uniform", -1, "points[0].uniform = -1"},
      {"/models/0/maps", nullptr, "models[0].maps is missing"},
      {"/models/0/maps/0/cells", 9, "maps[0].layers[0][0]: allowed is a list of 9"},
      {"/models/0/maps/0/cells", 1e9, "maps[0].cells = 1000000000"},
      {"/models/0/maps/0/layers/1/0/2/0", -0.5, "maps[0].layers[1][0][2][0]: allowed are numbers"},
      {"/models/0/maps/0/layers/0", 0, "maps[0].layers[0]: allowed is a list of 2"},
  };
  for (const Wrong& wrong : cases) {
    json figures = sample_figures();
    const json::json_pointer place(wrong.place);
    if (wrong.value.is_null()) {
      figures[place.parent_pointer()].erase(place.back());
    } else {
      figures[place] = wrong.value;
    }
    EXPECT_THAT(error_of(figures), HasSubstr(wrong.error)) << wrong.place;
  }
  EXPECT_THAT(error_of(json::array()), HasSubstr("f.json = []: allowed is a JSON object"));
}

}  // namespace
}  // namespace lssar
