#include "runtime/launch_counters.h"

namespace lssar {

void LaunchCounters::add(const LaunchCounters& other) {
  warp_instructions += other.warp_instructions;
  launches += other.launches;
  detailed |= other.detailed;
  for (size_t i = 0; i < instructions.size(); ++i) {
    instructions[i].warps += other.instructions[i].warps;
    instructions[i].lanes += other.instructions[i].lanes;
  }
  for (size_t i = 0; i < tensor_flop.size(); ++i) tensor_flop[i] += other.tensor_flop[i];
  for (size_t i = 0; i < global.size(); ++i) {
    global[i].requests += other.global[i].requests;
    global[i].bytes += other.global[i].bytes;
    global[i].sectors += other.global[i].sectors;
    shared[i].requests += other.shared[i].requests;
    shared[i].bytes += other.shared[i].bytes;
    shared[i].wavefronts += other.shared[i].wavefronts;
    shared[i].ideal += other.shared[i].ideal;
  }
  if (other.worst_shared.lost > worst_shared.lost) worst_shared = other.worst_shared;
  if (other.worst_global.lost > worst_global.lost) worst_global = other.worst_global;
  barriers += other.barriers;
  tma_load_bytes += other.tma_load_bytes;
  tma_store_bytes += other.tma_store_bytes;
  tma_reduce_bytes += other.tma_reduce_bytes;
}

}  // namespace lssar
