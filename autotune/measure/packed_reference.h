// The reference of packed sequences (Problem::varlen): each computed alone, and their results put
// together as a call leaves them. Threads: pure functions.
#pragma once

#include "autotune/table/sequence_lengths.h"
#include "base/status.h"
#include "reference/reference.h"

namespace lssar {

// `inputs` and the outputs are those of tensors that hold all sequences as one batch entry. Without
// lengths: reference_attention. Errors: as reference_attention.
Result<ReferenceOutputs> reference_call(const Problem& problem, const Sizes& sizes,
                                        const SequenceLengths& lengths,
                                        const ReferenceInputs& inputs);

// Pairs of a query and a key in one head.
double pairs_of_call(const Sizes& sizes, const SequenceLengths& lengths);

}  // namespace lssar
