#include "tools/lssar/terminal/print_text.h"

#include <nlohmann/json.hpp>

namespace lssar::command {

std::string json_text(const nlohmann::json& json, int indent) {
  return json.dump(indent, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

void print_json(const nlohmann::json& json, int indent) { fmt::print("{}", json_text(json, indent)); }

}  // namespace lssar::command
