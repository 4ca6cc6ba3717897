#include "tools/lssar/sim/sim_data.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/npy.h"
#include "virtual/run/module.h"

namespace lssar::command {
namespace {

constexpr size_t kMapAlign = 64;

Result<size_t> count_bytes(const SimData& data) {
  size_t bytes = sim_type_bytes(data.argument.type);
  for (const int64_t extent : data.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<size_t>(extent), &bytes)) {
      return invalid_argument(fmt::format("--arg {}: shape {} is more than fits in memory",
                                          data.argument.text, npy_shape_string(data.shape)));
    }
  }
  return bytes;
}

Status load_file(SimData& data) {
  const SimArgument& argument = data.argument;
  data.shape = argument.shape;
  if (argument.reads || data.shape.empty()) {
    Result<NpyArray<double>> array = read_npy_float64(argument.file);
    if (!array.ok()) return array.status().with_context("--arg " + argument.text);
    data.shape = std::move(array->shape);
    if (argument.reads) {
      Result<std::vector<std::byte>> bytes = encode_elements(argument.type, array->values);
      if (!bytes.ok()) return bytes.status().with_context("--arg " + argument.text);
      data.initial = std::move(*bytes);
    }
  }
  LSSAR_ASSIGN_OR_RETURN(data.bytes, count_bytes(data));
  return {};
}

Status check_structs(const std::vector<SimData>& data) {
  bool open = false;
  for (const SimData& d : data) {
    const bool begins = d.argument.kind == SimArgumentKind::kStructBegin;
    if (!begins && d.argument.kind != SimArgumentKind::kStructEnd) continue;
    if (begins == open) {
      return invalid_argument(begins ? "--arg {: structs are not nested"
                                     : "--arg }: there is no { before it");
    }
    open = begins;
  }
  return open ? invalid_argument("--arg {: there is no } after it") : Status();
}

Status check_outputs(const std::vector<SimData>& data) {
  std::set<std::string> files;
  for (const SimData& d : data) {
    if (!d.argument.writes || files.insert(d.argument.output_file).second) continue;
    return invalid_argument(fmt::format("--arg {}: another argument writes '{}' too",
                                        d.argument.text, d.argument.output_file));
  }
  return {};
}

size_t value_bytes(const SimArgument& argument) {
  switch (argument.kind) {
    case SimArgumentKind::kScalar:
      return argument.scalar.size();
    case SimArgumentKind::kPointer:
      return sizeof(DevicePtr);
    case SimArgumentKind::kTensorMap:
      return sizeof(TensorMap);
    case SimArgumentKind::kStructBegin:
    case SimArgumentKind::kStructEnd:
      break;
  }
  return 0;
}

size_t value_align(const SimArgument& argument) {
  return argument.kind == SimArgumentKind::kTensorMap ? kMapAlign
                                                      : std::max<size_t>(value_bytes(argument), 1);
}

size_t round_up(size_t value, size_t align) { return (value + align - 1) / align * align; }

// What fills one parameter: an argument, or a struct's arguments with their offsets.
struct Item {
  std::string text;
  size_t bytes = 0;
  std::vector<std::pair<size_t, size_t>> members;  // argument, offset
};

std::vector<Item> group_items(const std::vector<SimData>& data) {
  std::vector<Item> items;
  bool in_struct = false;
  size_t align = 1;
  for (size_t i = 0; i < data.size(); ++i) {
    const SimArgument& argument = data[i].argument;
    if (argument.kind == SimArgumentKind::kStructEnd) {
      items.back().bytes = round_up(items.back().bytes, align);
      in_struct = false;
      continue;
    }
    if (!in_struct) items.push_back({argument.text, 0, {}});
    if (argument.kind == SimArgumentKind::kStructBegin) {
      items.back().text = "{...}";
      in_struct = true;
      align = 1;
      continue;
    }
    align = std::max(align, value_align(argument));
    const size_t offset = round_up(items.back().bytes, value_align(argument));
    items.back().members.emplace_back(i, offset);
    items.back().bytes = offset + value_bytes(argument);
  }
  return items;
}

std::string list_parameters(const vdev::KernelProgram& program) {
  if (program.parsed->params.empty()) return fmt::format("kernel {} takes none", program.name);
  std::string text = fmt::format("kernel {} takes", program.name);
  for (const vdev::Variable& p : program.parsed->params) {
    text += fmt::format("{} {} ({} bytes)", &p == program.parsed->params.data() ? "" : ",", p.name,
                        p.bytes);
  }
  return text;
}

}  // namespace

Result<std::vector<SimData>> load_sim_data(const std::vector<std::string>& texts) {
  std::vector<SimData> data(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    LSSAR_ASSIGN_OR_RETURN(data[i].argument, parse_sim_argument(texts[i]));
  }
  LSSAR_RETURN_IF_ERROR(check_structs(data));
  LSSAR_RETURN_IF_ERROR(check_outputs(data));
  for (SimData& d : data) {
    if (d.has_memory()) LSSAR_RETURN_IF_ERROR(load_file(d));
  }
  return data;
}

TensorMapRequest sim_tensor_map(const SimData& data, DevicePtr address) {
  static constexpr TensorDataType kMapTypes[] = {
      TensorDataType::kFloat64, TensorDataType::kFloat32, TensorDataType::kFloat16,
      TensorDataType::kBfloat16, TensorDataType::kUint8, TensorDataType::kUint8,
      TensorDataType::kUint8, TensorDataType::kUint8,
      // Types without a signed form: TMA only copies them, and adds them alike in two's complement.
      TensorDataType::kUint16, TensorDataType::kUint16, TensorDataType::kInt32,
      TensorDataType::kUint32, TensorDataType::kInt64, TensorDataType::kUint64};
  const SimArgument& argument = data.argument;
  const size_t columns = data.shape.empty() ? 1 : static_cast<size_t>(data.shape.back());
  const size_t row_bytes = columns * sim_type_bytes(argument.type);
  TensorMapRequest request;
  request.type = kMapTypes[static_cast<size_t>(argument.type)];
  request.rank = 2;
  request.global_address = address;
  request.global_dims[0] = columns;
  request.global_dims[1] = row_bytes == 0 ? 0 : data.bytes / row_bytes;
  request.global_strides[0] = row_bytes;
  request.box_dims[0] = argument.box_columns;
  request.box_dims[1] = argument.box_rows;
  switch (argument.swizzle_bytes) {
    case 32:
      request.swizzle = TensorSwizzle::k32Bytes;
      break;
    case 64:
      request.swizzle = TensorSwizzle::k64Bytes;
      break;
    case 128:
      request.swizzle = TensorSwizzle::k128Bytes;
      break;
    default:
      break;
  }
  return request;
}

Result<SimPlacement> place_arguments(const DeviceFunction& function,
                                     const std::vector<SimData>& data) {
  const auto* virtual_function = dynamic_cast<const vdev::Function*>(&function);
  if (virtual_function == nullptr) return internal_error("sim: not a virtual device's kernel");
  const vdev::KernelProgram& program = virtual_function->program();
  const std::vector<vdev::Variable>& parameters = program.parsed->params;
  const std::vector<Item> items = group_items(data);
  if (items.size() != parameters.size()) {
    return invalid_argument(fmt::format("{} --arg for {} parameters: {}", items.size(),
                                        parameters.size(), list_parameters(program)));
  }
  SimPlacement placement;
  placement.bytes = program.params_bytes;
  placement.offsets.assign(data.size(), 0);
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes != parameters[i].bytes) {
      return invalid_argument(fmt::format("--arg {}: {} bytes for {} ({} bytes): {}", items[i].text,
                                          items[i].bytes, parameters[i].name, parameters[i].bytes,
                                          list_parameters(program)));
    }
    for (const auto& [argument, offset] : items[i].members) {
      placement.offsets[argument] = parameters[i].address + offset;
    }
  }
  return placement;
}

}  // namespace lssar::command
