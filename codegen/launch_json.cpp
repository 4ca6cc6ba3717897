#include "codegen/launch_json.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "base/json_fields.h"
#include "templates/kernels/params.cuh"

namespace lssar {

using nlohmann::json;

template <>
inline constexpr EnumName<GridRows> enum_names<GridRows>[] = {
    {GridRows::kQueries, "queries"},
    {GridRows::kKeys, "keys"},
    {GridRows::kPackedQueries, "packed_queries"},
    {GridRows::kNewKeys, "new_keys"},
    {GridRows::kHeads, "heads"},
    {GridRows::kOnce, "once"}};
template <>
inline constexpr EnumName<Rotation> enum_names<Rotation>[] = {{Rotation::kNone, "none"},
                                                              {Rotation::kQ, "q"},
                                                              {Rotation::kK, "k"},
                                                              {Rotation::kGradQ, "grad_q"},
                                                              {Rotation::kGradK, "grad_k"}};
template <>
inline constexpr EnumName<MapTensor> enum_names<MapTensor>[] = {
    {MapTensor::kQ, "q"},
    {MapTensor::kK, "k"},
    {MapTensor::kV, "v"},
    {MapTensor::kO, "o"},
    {MapTensor::kGradO, "grad_o"},
    {MapTensor::kGradQ, "grad_q"},
    {MapTensor::kGradK, "grad_k"},
    {MapTensor::kGradV, "grad_v"},

    {MapTensor::kGradQSum, "grad_q_sum"},
    {MapTensor::kKeyNorms, "key_norms"},
    {MapTensor::kRowConstants, "row_constants"}};

namespace {

json to_json(const MapSpec& map) {
  return {{"tensor", enum_name(map.tensor)},
          {"box_rows", map.box_rows},
          {"box_cols", map.box_cols},
          {"swizzled", map.swizzled},
          {"packed", map.packed}};
}

Result<MapSpec> read_map(const json& from) {
  JsonFields fields(from, "map");
  MapSpec map;
  fields.require("tensor");
  fields.read_enum("tensor", enum_names<MapTensor>, map.tensor);
  fields.need_whole("box_rows", 1, 256, map.box_rows);
  fields.need_whole("box_cols", 1, 256, map.box_cols);
  fields.read("swizzled", map.swizzled);
  fields.read("packed", map.packed);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  return map;
}

}  // namespace

json to_json(const LaunchStep& step) {
  json maps = json::array();
  for (const MapSpec& map : step.maps) maps.push_back(to_json(map));
  json fields = {{"entry", step.entry},
                 {"grid_rows", enum_name(step.grid_rows)},
                 {"rows_per_block", step.rows_per_block},
                 {"packed_rows", step.packed_rows},
                 {"threads", step.threads},
                 {"shared_bytes", step.shared_bytes},
                 {"least_rows", step.least_rows},
                 {"most_rows", step.most_rows},
                 {"maps", std::move(maps)},
                 {"is_persistent", step.is_persistent},
                 {"blocks_per_sm", step.blocks_per_sm},
                 {"cluster", step.cluster}};
  if (step.rotation != Rotation::kNone) fields["rotation"] = enum_name(step.rotation);
  return fields;
}

Result<LaunchStep> launch_step_from_json(const json& from) {
  JsonFields fields(from, "step");
  LaunchStep step;
  fields.require("entry");
  fields.read("entry", step.entry);
  fields.require("grid_rows");
  fields.read_enum("grid_rows", enum_names<GridRows>, step.grid_rows);
  fields.need_whole("rows_per_block", 1, 1 << 16, step.rows_per_block);
  const bool is_packed = step.grid_rows == GridRows::kPackedQueries;
  fields.need_whole("packed_rows", is_packed ? 1 : 0, is_packed ? step.rows_per_block : 0,
                    step.packed_rows);
  fields.read_enum("rotation", enum_names<Rotation>, step.rotation);
  fields.need_whole("threads", 1, 1024, step.threads);
  fields.need_whole("shared_bytes", 0, 1 << 20, step.shared_bytes);
  fields.need_whole("least_rows", 0, 1 << 16, step.least_rows);
  fields.need_whole("most_rows", 0, 1 << 16, step.most_rows);
  fields.read("is_persistent", step.is_persistent);
  fields.need_whole("blocks_per_sm", 1, 64, step.blocks_per_sm);
  fields.need_whole("cluster", 1, 16, step.cluster);
  if (const json* maps = fields.list("maps", lssar_device::kMaxTensorMaps)) {
    for (const json& one : *maps) {
      LSSAR_ASSIGN_OR_RETURN(const MapSpec map, read_map(one));
      step.maps.push_back(map);
    }
  }
  LSSAR_RETURN_IF_ERROR(fields.finish());
  return step;
}

Result<Sizes> sizes_from_json(const json& from, const std::string& where) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  JsonFields fields(from, where);
  Sizes sizes;
  fields.need_whole("batch", 0, kMost, sizes.batch);
  fields.need_whole("heads", 0, kMost, sizes.heads);
  fields.need_whole("kv_heads", 0, kMost, sizes.kv_heads);
  fields.need_whole("seq_q", 0, kMost, sizes.seq_q);
  fields.need_whole("seq_k", 0, kMost, sizes.seq_k);
  LSSAR_RETURN_IF_ERROR(fields.finish());
  return sizes;
}

}  // namespace lssar
