// Numbers of 16 bits.
#pragma once

#include <cstdint>

namespace lssar {

// Exact.
float decode_fp16(uint16_t bits);
float decode_bf16(uint16_t bits);

}  // namespace lssar
