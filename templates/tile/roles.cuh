// Warp group 0 of a block is the producer, the others are consumers.
#pragma once

#include "templates/ptx/warp_group.cuh"

namespace lssar_device {

// Calls `produce` in one lane of group 0, and `consume` in every other group with its number.
// Before that it moves registers from the producer to the consumers.
//
// 0 registers: it moves none. REQUIRES: barriers are initialised.
template <int kProducerRegisters, int kConsumerRegisters, class Produce, class Consume>
LSSAR_DEVICE void run_roles(const Produce& produce, const Consume& consume) {
  const int warp_group = warp_group_index();
  if (warp_group == 0) {
    if constexpr (kConsumerRegisters > 0) lower_registers<kProducerRegisters>();
    if (warp_index() == 0 && elect_lane()) LSSAR_INLINE_CALL produce();
  } else {
    if constexpr (kConsumerRegisters > 0) raise_registers<kConsumerRegisters>();
    LSSAR_INLINE_CALL consume(warp_group - 1);
  }
}

// The same, with `help` in the second warp of group 0.
template <int kProducerRegisters, int kConsumerRegisters, class Produce, class Consume, class Help>
LSSAR_DEVICE void run_roles(const Produce& produce, const Consume& consume, const Help& help) {
  const int warp_group = warp_group_index();
  if (warp_group == 0) {
    if constexpr (kConsumerRegisters > 0) lower_registers<kProducerRegisters>();
    if (warp_index() == 0 && elect_lane()) LSSAR_INLINE_CALL produce();
    if (warp_index() == 1) LSSAR_INLINE_CALL help();
  } else {
    if constexpr (kConsumerRegisters > 0) raise_registers<kConsumerRegisters>();
    LSSAR_INLINE_CALL consume(warp_group - 1);
  }
}

}  // namespace lssar_device
