#include "virtual/async/bulk_operation.h"

#include <cstring>

#include "virtual/async/mbarrier.h"
#include "virtual/check/checker.h"

namespace lssar::vdev {

void BulkOperation::read() {
  data_.resize(bytes_);
  if (kind_ != BulkKind::kLoad) {
    gather_swizzled(swizzle, from.memory, from.address, bytes_, data_.data());
    return;
  }
  uint8_t pattern[16];
  fill_pattern(type, fill, pattern);
  read_rows(rows, pattern, data_.data());
  if (converts_on_load(type)) convert_on_load(type, data_.data(), bytes_);
}

void BulkOperation::write_rows() {
  const uint8_t* row_data = data_.data();
  for (const BoxRow& row : rows) {
    if (row.begin < row.end) {
      auto* const target = reinterpret_cast<uint8_t*>(row.global + row.begin);
      if (reduce != nullptr) {
        reduce(target, row_data + row.begin, row.end - row.begin);
      } else {
        std::memcpy(target, row_data + row.begin, row.end - row.begin);
      }
    }
    row_data += row.bytes;
  }
}

void BulkOperation::finish() {
  if (kind_ == BulkKind::kStore || kind_ == BulkKind::kReduce) {
    write_rows();
    return;
  }
  if (kind_ == BulkKind::kReduceShared) {
    reduce(to.memory + to.address, data_.data(), bytes_);
  } else {
    scatter_swizzled(swizzle, data_.data(), bytes_, to.address, to.memory);
    if (checker != nullptr) {
      for_each_swizzled_range(swizzle, to.address, bytes_, [&](uint32_t address, uint32_t bytes) {
        checker->set_undefined(to.rank, address, bytes, false);
      });
    }
  }
  complete_transactions(*barrier, bytes_);
}

}  // namespace lssar::vdev
