#include "inspect/timeline_names.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "codegen/shapes.h"

namespace lssar {
namespace {

constexpr std::string_view kBarriers = " barriers";  // ends the names of such parts
constexpr int kPairBytes = 2 * kBarrierBytes;        // full and empty
constexpr uint64_t kAddressMask = 0xffffff;  // of a block's shared memory, in a signal's key

}  // namespace

TimelineNames::TimelineNames(const TimelineInput& input, std::vector<std::string>* labels)
    : in_(input), labels_(labels), functions_(functions_by_line(input.source)) {
  if (in_.layout.empty()) return;
  const SharedPart& last = in_.layout.back();
  shared_base_ = int(in_.trace.shared_bytes) - last.offset - last.bytes;
}

const SharedPart* TimelineNames::part_at(uint32_t address) const {
  const int offset = int(address) - shared_base_;
  for (const SharedPart& part : in_.layout)
    if (offset >= part.offset && offset < part.offset + part.bytes) return &part;
  return nullptr;
}

std::string TimelineNames::place_name(const SharedPart& part) {
  return part.stage < 0 ? part.name : fmt::format("stage {}", part.stage);
}

int TimelineNames::label(const std::string& text) {
  const auto [at, is_new] = label_of_.try_emplace(text, int(labels_->size()));
  if (is_new) labels_->push_back(text);
  return at->second;
}

std::string TimelineNames::function_at(int line) const {
  return line > 0 && size_t(line) < functions_.size() ? functions_[size_t(line)] : "";
}

int TimelineNames::function_label(uint32_t instruction) {
  const auto known = function_of_.find(instruction);
  if (known != function_of_.end()) return known->second;
  const uint32_t line = in_.trace.instructions[instruction].line;
  const SourcePlace place = line < in_.places.size() ? in_.places[line] : SourcePlace();
  const std::string own = function_at(place.line), caller = function_at(place.caller);
  std::string text = caller.empty() || caller == own ? own : fmt::format("{} in {}", own, caller);
  if (text.empty()) text = "no source line";
  return function_of_[instruction] = label(text);
}

int TimelineNames::barrier_label(const SignalKey& key) {
  if ((key.first & kNamedBarrier) != 0) {
    const auto id = static_cast<uint32_t>(key.first);
    return label(id == kClusterBarrier ? "barrier of the cluster"
                                       : fmt::format("barrier {} of the block", id & kAddressMask));
  }
  int number = 0;
  const SharedPart* const part = barriers_of(key, &number);
  if (part == nullptr) return label(fmt::format("mbarrier at {:#x}", key.first & kAddressMask));
  const int stages = part->bytes / kPairBytes;
  const std::string what = part->name.substr(0, part->name.size() - kBarriers.size());
  const char* const state = number < stages ? "full" : "empty";
  return label(stages == 1 ? fmt::format("{}: {}", what, state)
                           : fmt::format("{} stage {}: {}", what, number % stages, state));
}

// Full barriers precede empty ones: RingBarriers in templates/tile/tma_ring.cuh.
bool TimelineNames::is_of_free_place(const SignalKey& key) const {
  int number = 0;
  const SharedPart* const part = barriers_of(key, &number);
  return part != nullptr && number >= part->bytes / kPairBytes;
}

const SharedPart* TimelineNames::barriers_of(const SignalKey& key, int* number) const {
  const auto address = static_cast<uint32_t>(key.first & kAddressMask);
  const SharedPart* const part = part_at(address);
  if (part == nullptr || !part->name.ends_with(kBarriers)) return nullptr;
  *number = (int(address) - shared_base_ - part->offset) / kBarrierBytes;
  return part;
}

namespace {

// The name before the parenthesis at `open`.
std::string name_before(std::string_view text, size_t open) {
  size_t begin = open;
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  return std::string(text.substr(begin, open - begin));
}

}  // namespace

// NOTE: in a kernel, "__launch_bounds__(384, 1)" precedes the name, which is on the next line.
std::vector<std::string> functions_by_line(const std::string& source) {
  constexpr std::string_view kBounds = "__launch_bounds__(";
  std::vector<std::string> functions = {""};
  std::string now;
  bool is_kernel = false;  // its name follows
  for (size_t at = 0; at < source.size();) {
    const size_t end = std::min(source.find('\n', at), source.size());
    const std::string_view text(source.data() + at, end - at);
    at = end + 1;
    size_t from = text.find("LSSAR_DEVICE");
    if (is_kernel) from = 0;
    if (const size_t kernel = text.find("__global__"); kernel != text.npos) {
      is_kernel = true;
      const size_t bounds = text.find(kBounds);
      from = bounds == text.npos ? kernel : bounds + kBounds.size();
    }
    const size_t open = from == text.npos ? text.npos : text.find('(', from);
    if (open != text.npos) {
      now = name_before(text, open);
      is_kernel = false;
    }
    functions.push_back(now);
  }
  return functions;
}

}  // namespace lssar
