#include "device/launch_counters.h"

#include <algorithm>

namespace lssar {

void LaunchCounters::add(const LaunchCounters& other) {
  warp_instructions += other.warp_instructions;
  launches += other.launches;
  detailed |= other.detailed;
  for (size_t i = 0; i < instructions.size(); ++i) instructions[i].add(other.instructions[i]);
  for (size_t i = 0; i < tensor_flop.size(); ++i) tensor_flop[i] += other.tensor_flop[i];
  for (size_t i = 0; i < global.size(); ++i) {
    global[i].add(other.global[i]);
    shared[i].add(other.shared[i]);
  }
  if (other.worst_shared.lost > worst_shared.lost) worst_shared = other.worst_shared;
  if (other.worst_global.lost > worst_global.lost) worst_global = other.worst_global;
  barriers += other.barriers;
  tma_load_bytes += other.tma_load_bytes;
  tma_store_bytes += other.tma_store_bytes;
  tma_reduce_bytes += other.tma_reduce_bytes;
}

void KernelCounters::add(const LaunchCounters& launch, const std::vector<LineCounters>& its_lines) {
  counters.add(launch);
  const size_t num_before = lines.size();
  for (const LineCounters& other : its_lines) {
    const auto end = lines.begin() + std::ptrdiff_t(num_before);
    const auto at =
        std::lower_bound(lines.begin(), end, other.line,
                         [](const LineCounters& one, uint32_t line) { return one.line < line; });
    if (at == end || at->line != other.line) {
      lines.push_back(other);
      continue;
    }
    at->executed.add(other.executed);
    at->global.add(other.global);
    at->global_excess += other.global_excess;
    at->shared.add(other.shared);
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const LineCounters& a, const LineCounters& b) { return a.line < b.line; });
}

}  // namespace lssar
