// Rotary positions of sequences that have lengths of their own: rotate.cuh on the rows of the
// block's sequence. A row's position is that in its sequence.
#pragma once

#include "templates/kernels/rotate.cuh"
#include "templates/tile/sequences.cuh"

namespace lssar_device {

// Sets `own` to what the launch turns of sequence b.
template <class Config, int kLaunch>
LSSAR_DEVICE void set_rotary_sequence(RotaryParams& own, const RotarySequencesParams& params,
                                      int b) {
  using Element = typename Config::Element;
  const SequenceRows keys = key_rows(params.sequences, b);
  const bool of_keys = params.sequences.launches[kLaunch].rows_are != kQueryRows;
  const SequenceRows rows = of_keys ? keys : query_rows(params.sequences, b);
  own = params.rotary;
  move_to_sequence<Element>(own.from, rows);
  move_to_sequence<Element>(own.to, rows);
  own.rows = rows.length;
  own.first_position = keys.length - rows.length;
}

// As enter_sequence (tile/sequences.cuh). Each thread has its own copy.
template <class Config, int kLaunch>
LSSAR_DEVICE bool enter_rotary_sequence(RotaryParams& own, const RotarySequencesParams& params) {
  if (warp_index() == 0) find_sequence<kLaunch, false>(params.sequences);
  block_barrier();
  if (sequence_of_block < 0) return false;
  set_rotary_sequence<Config, kLaunch>(own, params, sequence_of_block);
  return true;
}

}  // namespace lssar_device
