// The environment variables of docs/environment.md, by name. A test compares the two.
#pragma once

#include <string>
#include <vector>

namespace lssar::command {

inline const std::vector<std::string>& known_variables() {
  static const std::vector<std::string> names = {
      "LSSAR_BUILD_DIR",
      "LSSAR_CACHE_DIR",
      "LSSAR_CACHE_LAYERS",
      "LSSAR_CAPTURE_CALL",
      "LSSAR_CAPTURE_DIR",
      "LSSAR_CAPTURE_INPUTS",
      "LSSAR_DEBUG_WAITS",
      "LSSAR_DEVICE",
      "LSSAR_DUMP_DIR",
      "LSSAR_FAST_COMPILE",
      "LSSAR_LIBRARY",
      "LSSAR_LLVM_PATH",
      "LSSAR_LOG",
      "LSSAR_NVDISASM",
      "LSSAR_NVRTC_PATH",
      "LSSAR_OVERRIDE_DIR",
      "LSSAR_SANITIZE_JOBS",
      "LSSAR_TEST_DATA",
      "LSSAR_TEST_DEVICE",
      "LSSAR_TEST_SEED_TURN",
      "LSSAR_TEST_TARGET",
      "LSSAR_TUNE_WORKER",
      "LSSAR_TUNING_TABLE",
      "LSSAR_UPDATE_DOCS",
      "LSSAR_VIRTUAL_CHECKS",
      "LSSAR_VIRTUAL_ELECT",
      "LSSAR_VIRTUAL_SEED",
      "LSSAR_VIRTUAL_SIMD",
  };
  return names;
}

}  // namespace lssar::command
