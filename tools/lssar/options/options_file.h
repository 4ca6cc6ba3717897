// JSON files of options.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json_text.h"
#include "base/status.h"

namespace lssar::command {

inline Result<nlohmann::json> read_options_file(const std::string& path) {
  // Longer files are no options: the user gave a device file or a tensor by mistake.
  constexpr uint64_t kMaxBytes = 1 << 20;
  LSSAR_ASSIGN_OR_RETURN(const std::string text, read_file(path, {.max_bytes = kMaxBytes}));
  return parse_json(text, path);
}

}  // namespace lssar::command
