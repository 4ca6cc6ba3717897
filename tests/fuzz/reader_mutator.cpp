#include "tests/fuzz/reader_mutator.h"

#include <cstring>
#include <iterator>
#include <limits>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tests/fuzz/plan_input.h"

namespace lssar::test {
namespace {

constexpr int64_t kIntegers[] = {0,
                                 1,
                                 -1,
                                 2,
                                 3,
                                 4,
                                 8,
                                 16,
                                 24,
                                 32,
                                 64,
                                 96,
                                 128,
                                 192,
                                 255,
                                 256,
                                 1024,
                                 4096,
                                 65536,
                                 std::numeric_limits<int32_t>::max(),
                                 std::numeric_limits<int32_t>::min(),
                                 int64_t{1} << 31,
                                 int64_t{1} << 32,
                                 int64_t{1} << 62,
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
constexpr double kReals[] = {0.0, -0.0, 0.5, 1.0, 1e-300, 1e6, 1e308, -1.0};
// Enumerators of every field, names of targets, and numbers that JSON has none of.
const char* const kNames[] = {
    "forward",  "forward-train", "backward", "fp16",    "bf16",      "fp32",       "portable",
    "hopper",   "cp_async",      "plain",    "split",   "atomic",    "scores",     "operands",
    "shared",   "registers",     "tma",      "full",    "short",     "linear",     "sm_80",
    "sm_89",    "sm_90",         "sm_90a",   "sm_100",  "sm_120",    "ok",         "spills",
    "measured", "predicted",     "nan",      "-inf",    "any",       "repeatable", "exp",
    "softplus", "sum",           "none",     "length",  "\xc3\xa9"};

}  // namespace

int64_t ReaderMutator::integer() {
  const int64_t value = kIntegers[below(std::size(kIntegers))];
  return below(4) == 0 ? static_cast<int64_t>(static_cast<uint64_t>(value) + below(5) - 2) : value;
}

nlohmann::json& ReaderMutator::pick(nlohmann::json& document) {
  nlohmann::json* at = &document;
  while (at->is_structured() && !at->empty() && (at == &document || below(8) != 0)) {
    at = &*std::next(at->begin(), below(at->size()));
  }
  return *at;
}

nlohmann::json ReaderMutator::other_value(const nlohmann::json& value) {
  switch (below(16)) {
    case 0:
      return nullptr;
    case 1:
      return nlohmann::json::array({integer()});
    case 2:
      return nlohmann::json::object();
    case 3:
      return std::numeric_limits<uint64_t>::max() - below(3);
    case 4:
      return kNames[below(std::size(kNames))];
    case 5:
      return kReals[below(std::size(kReals))];
    case 6:
      return integer();
    default:
      break;
  }
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_integer()) {
    const auto old = value.get<uint64_t>();
    const uint64_t changed[] = {old + 1, old - 1, old * 2, old / 2, old + 16, old - 16, old * 3};
    const uint32_t which = below(2 * std::size(changed));
    if (which < std::size(changed)) return static_cast<int64_t>(changed[which]);
    return integer();
  }
  if (value.is_number()) return kReals[below(std::size(kReals))];
  return kNames[below(std::size(kNames))];
}

void ReaderMutator::change(nlohmann::json& document) {
  nlohmann::json& value = pick(document);
  if (!value.is_structured()) {
    value = other_value(value);
  } else if (value.is_object() && !value.empty()) {
    const auto member = std::next(value.begin(), below(value.size()));
    if (below(2) == 0) {
      value.erase(member);
    } else {
      value[kNames[below(std::size(kNames))]] = nlohmann::json(*member);
    }
  } else {
    value = other_value(value);
  }
}

std::string ReaderMutator::json(const std::string& text) {
  nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (document.is_discarded()) return text;
  for (uint32_t i = 0; i <= below(3); ++i) change(document);
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ReaderMutator::lines(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '\n') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const uint32_t at = below(parts.size());
  switch (below(8)) {
    case 0:
      parts.push_back(parts[at]);
      break;
    case 1:
      parts.erase(parts.begin() + at);
      break;
    default:
      parts[at] = json(parts[at]);
  }
  std::string changed;
  for (size_t i = 0; i < parts.size(); ++i) changed += (i == 0 ? "" : "\n") + parts[i];
  return changed;
}

std::string ReaderMutator::number(std::string text, size_t bytes) {
  const size_t numbers = std::min(bytes, text.size()) / 4;
  if (numbers == 0) return text;
  const size_t at = below(numbers) * 4;
  int64_t value = integer();
  size_t size = at % 8 == 0 && at + 8 <= text.size() && below(2) == 0 ? 8 : 4;
  if (below(8) == 0) {  // as another number of the text
    std::memcpy(&value, text.data() + below(text.size() / 8 + 1) * 8 % (text.size() - 3), 4);
    size = 4;
  }
  std::memcpy(text.data() + at, &value, size);
  return text;
}

std::string mutate_input(const char* reader, const std::string& input, uint32_t seed) {
  ReaderMutator mutator(seed);
  const std::string_view name = reader;
  if (name == "table") return mutator.lines(input);
  const bool is_manifest = name == "capture" && !input.empty() && input[0] == '{';
  if (name == "schedule" || is_manifest) return mutator.json(input);
  if (name == "plan" && seed % 2 == 0 && input.size() > sizeof(PlanInput)) {
    return input.substr(0, sizeof(PlanInput)) + mutator.json(input.substr(sizeof(PlanInput)));
  }
  return mutator.number(input, input.size());
}

}  // namespace lssar::test
