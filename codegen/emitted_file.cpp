#include "codegen/emitted_file.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "codegen/source_header.h"

namespace lssar {
namespace {

// The JSON text in the request's lines, or "" if the header has none.
std::string request_text(const std::string& text) {
  const size_t header_bytes = text.size() - source_without_header(text).size();
  const size_t at = text.rfind(std::string("\n") + kRequestPrefix, header_bytes);
  if (at == text.npos) return "";
  std::string request;
  for (size_t first = at + 1; first < text.size();) {
    const size_t end = std::min(text.find('\n', first), text.size());
    const size_t margin = std::strlen(kRequestMargin);  // margin and prefix have the same width
    request += text.substr(std::min(first + margin, end), end - std::min(first + margin, end));
    first = end + 1;
    if (text.compare(std::min(first, text.size()), margin, kRequestMargin) != 0) break;
  }
  return request;
}

Status read_request(const nlohmann::json& json, EmittedFile* file) {
  for (const char* field : {"problem", "schedule", "target"}) {
    if (!json.is_object() || !json.contains(field))
      return invalid_argument(fmt::format("its request line lacks \"{}\"", field));
  }
  LSSAR_ASSIGN_OR_RETURN(file->problem, problem_from_json(json["problem"]));
  LSSAR_ASSIGN_OR_RETURN(file->target, target_from_json(json["target"]));
  LSSAR_ASSIGN_OR_RETURN(file->schedule, schedule_from_json(json["schedule"], Schedule()));
  LSSAR_ASSIGN_OR_RETURN(file->source, emit_kernel(file->problem, file->schedule, file->target));
  return {};
}

// The fields that make this problem of a default one.
nlohmann::json fields_not_default(const Problem& problem) {
  const nlohmann::json all = to_json(problem), defaults = to_json(Problem());
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [name, value] : all.items())
    if (value != defaults[name]) fields[name] = value;
  // A field that is left out may mean "as another one".
  const auto read = problem_from_json(fields);
  return read.ok() && to_json(read.value()) == all ? fields : all;
}

}  // namespace

nlohmann::json request_json(const Problem& problem, const Schedule& schedule,
                            const Target& target) {
  return {{"problem", fields_not_default(problem)},
          {"schedule", fields_of_pass(schedule, problem)},
          {"target", target.name()}};
}

Result<EmittedFile> read_emitted(const std::string& text, const std::string& name) {
  const std::string request = request_text(text);
  if (request.empty()) {
    return invalid_argument(fmt::format(
        "{}: no line \"{}...\" in its header: allowed is a source that `lssar emit` wrote, edited "
        "below its header",
        name, kRequestPrefix));
  }
  LSSAR_ASSIGN_OR_RETURN(const nlohmann::json json,
                         parse_json(request, name + ": its request line"));
  EmittedFile file;
  const Status status = read_request(json, &file);
  if (!status.ok()) return status.with_context(name);
  file.source.source = text;
  return file;
}

}  // namespace lssar
