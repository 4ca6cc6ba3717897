#include "virtual/state/mbarrier_table.h"

namespace lssar::vdev {

Mbarrier* MbarrierTable::find(uint32_t rank, uint32_t address) {
  const auto found = table_.find(key(rank, address));
  return found == table_.end() ? nullptr : found->second.get();
}

Mbarrier& MbarrierTable::create(uint32_t rank, uint32_t address) {
  auto& place = table_[key(rank, address)];
  place = std::make_unique<Mbarrier>();
  return *place;
}

}  // namespace lssar::vdev
