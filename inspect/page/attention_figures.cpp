#include "inspect/page/attention_figures.h"

#include <fmt/format.h>

#include <set>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_fields.h"

namespace lssar {

using nlohmann::json;

namespace {

constexpr int64_t kMostLayers = 1024, kMostHeads = 1024, kMostCells = 1024;
constexpr int64_t kMostLength = int64_t{1} << 40;
constexpr size_t kMostModels = 64, kMostPoints = 64;

Status check_list(const json& value, const std::string& path, size_t length) {
  if (value.is_array() && value.size() == length) return {};
  return invalid_argument(fmt::format("{}: allowed is a list of {}", path, length));
}

// Lists in lists of these lengths, with numbers from 0 to `most` in the innermost.
Status check_lists(const json& value, const std::string& path, std::span<const size_t> lengths,
                   double most) {
  if (lengths.empty()) {
    if (value.is_number() && value.get<double>() >= 0 && value.get<double>() <= most) return {};
    return invalid_argument(fmt::format("{}: allowed are numbers from 0 to {}", path, most));
  }
  LSSAR_RETURN_IF_ERROR(check_list(value, path, lengths[0]));
  for (size_t i = 0; i < value.size(); ++i) {
    LSSAR_RETURN_IF_ERROR(
        check_lists(value[i], fmt::format("{}[{}]", path, i), lengths.subspan(1), most));
  }
  return {};
}

struct ModelSize {
  size_t layers = 0, heads = 0;
};

void need_number(JsonFields* fields, const char* name, double most) {
  double number = 0;
  fields->require(name);
  fields->read(name, number);
  if (!(number >= 0 && number <= most)) {
    fields->fail(invalid_argument(
        fmt::format("{} = {}: allowed are 0 to {}", fields->path(name), number, most)));
  }
}

// `length` gets the point's.
Status check_point(const json& point, const std::string& path, const ModelSize& size,
                   int64_t* length) {
  constexpr double kMostNats = 100, kMostLoss = 1e6;
  JsonFields fields(point, path);
  fields.need_whole("length", 1, kMostLength, *length);
  need_number(&fields, "keys", double(kMostLength));
  need_number(&fields, "uniform", kMostNats);
  if (fields.has("loss")) need_number(&fields, "loss", kMostLoss);
  const size_t heads[] = {size.layers, size.heads};
  for (const char* name : {"entropy", "first", "live"}) {
    fields.require(name);
    if (!fields.status().ok()) break;
    const double most = std::string(name) == "entropy" ? kMostNats : 1;
    fields.fail(check_lists(point[name], fields.path(name), heads, most));
  }
  return fields.finish();
}

// The rows of one head's map: a row may leave out cells at its end, which are 0.
Status check_rows(const json& rows, const std::string& path, size_t cells) {
  LSSAR_RETURN_IF_ERROR(check_list(rows, path, cells));
  for (size_t i = 0; i < cells; ++i) {
    const std::string row = fmt::format("{}[{}]", path, i);
    if (!rows[i].is_array() || rows[i].size() > cells)
      return invalid_argument(fmt::format("{}: allowed is a list of at most {}", row, cells));
    const size_t length[] = {rows[i].size()};
    LSSAR_RETURN_IF_ERROR(check_lists(rows[i], row, length, 1));
  }
  return {};
}

Status check_map(const json& map, const std::string& path, const ModelSize& size) {
  JsonFields fields(map, path);
  int64_t length = 0, cells = 0;
  fields.need_whole("length", 1, kMostLength, length);
  fields.need_whole("cells", 1, kMostCells, cells);
  fields.require("layers");
  LSSAR_RETURN_IF_ERROR(fields.finish());
  const json& layers = map["layers"];
  LSSAR_RETURN_IF_ERROR(check_list(layers, path + ".layers", size.layers));
  for (size_t layer = 0; layer < size.layers; ++layer) {
    const std::string heads = fmt::format("{}.layers[{}]", path, layer);
    LSSAR_RETURN_IF_ERROR(check_list(layers[layer], heads, size.heads));
    for (size_t head = 0; head < size.heads; ++head) {
      LSSAR_RETURN_IF_ERROR(
          check_rows(layers[layer][head], fmt::format("{}[{}]", heads, head), size_t(cells)));
    }
  }
  return {};
}

Status check_points(const json& points, const std::string& path, const ModelSize& size) {
  if (points.empty()) return invalid_argument(path + ": allowed is a list with a point");
  int64_t before = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    const std::string point = fmt::format("{}[{}]", path, i);
    int64_t length = 0;
    LSSAR_RETURN_IF_ERROR(check_point(points[i], point, size, &length));
    if (length <= before) {
      return invalid_argument(fmt::format(
          "{}.length = {}: allowed are lengths above {}, the one before", point, length, before));
    }
    before = length;
  }
  return {};
}

Status check_model(const json& model, const std::string& path) {
  JsonFields fields(model, path);
  int64_t layers = 0, heads = 0, trained = 0, documents = 0, queries = 0;
  for (const char* name : {"name", "attention", "model", "rope"}) {
    std::string text;
    fields.require(name);
    fields.read(name, text);
  }
  fields.need_whole("layers", 1, kMostLayers, layers);
  fields.need_whole("heads", 1, kMostHeads, heads);
  fields.need_whole("trained", 1, kMostLength, trained);
  fields.need_whole("documents", 1, kMostLength, documents);
  fields.need_whole("queries", 1, kMostLength, queries);
  const json* points = fields.need_list("points", kMostPoints);
  const json* maps = fields.need_list("maps", kMostPoints);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  const ModelSize size = {size_t(layers), size_t(heads)};
  LSSAR_RETURN_IF_ERROR(check_points(*points, fields.path("points"), size));
  for (size_t i = 0; i < maps->size(); ++i)
    LSSAR_RETURN_IF_ERROR(check_map((*maps)[i], fmt::format("{}.maps[{}]", path, i), size));
  return {};
}

}  // namespace

Result<json> models_of_figures(const json& figures, const std::string& name) {
  JsonFields fields(figures, name);
  int format = 0;
  fields.need_whole("format", 1, 1, format);
  const json* models = fields.need_list("models", kMostModels);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  if (models->empty()) return invalid_argument(name + ".models: allowed is a list with a model");
  std::set<std::string> names;
  for (size_t i = 0; i < models->size(); ++i) {
    const std::string path = fmt::format("{}.models[{}]", name, i);
    LSSAR_RETURN_IF_ERROR(check_model((*models)[i], path));
    const std::string model = (*models)[i]["name"].get<std::string>();
    if (!names.insert(model).second) {
      return invalid_argument(
          fmt::format("{}.name = {}: allowed are names that no model before has", path, model));
    }
  }
  return *models;
}

}  // namespace lssar
