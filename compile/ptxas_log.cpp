#include "compile/ptxas_log.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

namespace lssar {
namespace {

// The number right before `unit`: 128 in "Used 40 registers, 128 bytes smem" for " bytes smem"; -1
// if there is none.
int number_before(std::string_view line, std::string_view unit) {
  const size_t end = line.find(unit);
  if (end == std::string_view::npos) return -1;
  size_t begin = end;
  while (begin > 0 && line[begin - 1] >= '0' && line[begin - 1] <= '9') --begin;
  if (begin == end) return -1;
  int64_t value = 0;
  for (const char c : line.substr(begin, end - begin)) {
    value = value * 10 + (c - '0');
    if (value > std::numeric_limits<int>::max()) return -1;
  }
  return static_cast<int>(value);
}

void set_if_known(int value, int* field) {
  if (value >= 0) *field = value;
}

// "... Compiling entry function 'NAME' for 'sm_80'"; "" for other lines.
std::string entry_of(std::string_view line) {
  constexpr std::string_view kMarker = "Compiling entry function '";
  const size_t begin = line.find(kMarker);
  if (begin == std::string_view::npos) return "";
  line.remove_prefix(begin + kMarker.size());
  return std::string(line.substr(0, line.find('\'')));
}

void read_line(std::string_view line, KernelResources* kernel) {
  set_if_known(number_before(line, " bytes stack frame"), &kernel->local_bytes);
  set_if_known(number_before(line, " bytes spill stores"), &kernel->spill_store_bytes);
  set_if_known(number_before(line, " bytes spill loads"), &kernel->spill_load_bytes);
  const int registers = number_before(line, " registers");
  if (registers < 0 || line.find("Used ") == std::string_view::npos) return;
  kernel->registers = registers;
  // This line mentions shared memory only if there is some.
  kernel->shared_bytes = std::max(0, number_before(line, " bytes smem"));
}

}  // namespace

std::vector<KernelResources> parse_ptxas_log(const std::string& log) {
  std::vector<KernelResources> kernels;
  std::string_view rest = log;
  // Properties of device functions that are not entries follow a line of their own.
  bool in_entry = false;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (std::string entry = entry_of(line); !entry.empty()) {
      kernels.push_back({});
      kernels.back().entry = std::move(entry);
      in_entry = true;
      continue;
    }
    constexpr std::string_view kProperties = "Function properties for ";
    if (const size_t at = line.find(kProperties); at != std::string_view::npos) {
      in_entry = !kernels.empty() && line.substr(at + kProperties.size()) == kernels.back().entry;
      continue;
    }
    // "Used N registers" belongs to the entry, even if other functions were listed before it.
    const bool is_usage = line.find("Used ") != std::string_view::npos;
    if (!kernels.empty() && (in_entry || is_usage)) read_line(line, &kernels.back());
  }
  return kernels;
}

std::vector<std::string> parse_assembler_warnings(const std::string& log) {
  constexpr std::string_view kCode = "(C75";
  constexpr size_t kCodeLength = sizeof("(C7510)") - 1;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<std::string> warnings;
  std::string_view rest = log;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    // A message of the front end may quote "(C75" from the source, so check where it is.
    const size_t at = line.find(kCode);
    if (at == std::string_view::npos || line.substr(0, at).find("ptxas") == std::string_view::npos)
      continue;
    line.remove_prefix(at);
    if (line.size() < kCodeLength || !is_digit(line[4]) || !is_digit(line[5]) || line[6] != ')')
      continue;
    warnings.emplace_back(line);
  }
  return warnings;
}

void add_ptxas_report(const std::vector<KernelResources>& report,
                      std::vector<KernelResources>* resources) {
  for (KernelResources& kernel : *resources) {
    for (const KernelResources& reported : report) {
      if (reported.entry != kernel.entry) continue;
      set_if_known(reported.registers, &kernel.registers);
      set_if_known(reported.shared_bytes, &kernel.shared_bytes);
      set_if_known(reported.spill_store_bytes, &kernel.spill_store_bytes);
      set_if_known(reported.spill_load_bytes, &kernel.spill_load_bytes);
      if (kernel.local_bytes < 0) kernel.local_bytes = reported.local_bytes;
    }
  }
}

}  // namespace lssar
