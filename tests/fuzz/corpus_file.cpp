#include "tests/fuzz/corpus_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "base/file.h"

namespace lssar::test {
namespace {

constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

bool is_name(std::string_view name) {
  return !name.empty() && name.find_first_not_of(kNameCharacters) == name.npos &&
         name.find_first_not_of('.') != name.npos;  // no folder either
}

Status check_name(std::string_view name) {
  if (is_name(name)) return {};
  return invalid_argument(fmt::format(
      "the name \"{}\" of an input: allowed are letters, digits, '_', '.' and '-'", name));
}

// Takes a corpus apart from its begin.
class CorpusParser {
 public:
  explicit CorpusParser(std::string_view packed) : packed_(packed) {}

  Result<std::vector<CorpusInput>> run() {
    LSSAR_ASSIGN_OR_RETURN(const std::string_view head, take_line());
    const size_t end = head.find(" inputs");
    size_t count = 0;
    if (end == head.npos || end + 7 != head.size() || !parse(head.substr(0, end), count)) {
      return error(0, "the first line is not \"COUNT inputs\"");
    }
    std::vector<CorpusInput> inputs;
    while (at_ < packed_.size()) {
      LSSAR_ASSIGN_OR_RETURN(CorpusInput input, take_input());
      if (!inputs.empty() && input.name <= inputs.back().name) {
        return error(
            at_, fmt::format("\"{}\" does not come after \"{}\"", input.name, inputs.back().name));
      }
      inputs.push_back(std::move(input));
    }
    if (inputs.size() == count) return inputs;
    return error(
        at_, fmt::format("there are {} inputs, and the first line says {}", inputs.size(), count));
  }

 private:
  static bool parse(std::string_view text, size_t& value) {
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    return parsed.ec == std::errc() && parsed.ptr == end && text == std::to_string(value);
  }
  static Status error(size_t at, const std::string& what) {
    return invalid_argument(fmt::format("byte {}: {}", at, what));
  }

  Result<std::string_view> take_line() {
    const size_t end = packed_.find('\n', at_);
    if (end == packed_.npos) return error(at_, "the line does not end");
    const std::string_view line = packed_.substr(at_, end - at_);
    at_ = end + 1;
    return line;
  }

  Result<CorpusInput> take_input() {
    const size_t begin = at_;
    LSSAR_ASSIGN_OR_RETURN(const std::string_view line, take_line());
    const size_t space = line.find(' ');
    size_t length = 0;
    if (space == line.npos || !is_name(line.substr(0, space)) ||
        !parse(line.substr(space + 1), length)) {
      return error(begin, "the line is not \"NAME LENGTH\"");
    }
    const std::string name(line.substr(0, space));
    const size_t left = packed_.size() - at_;
    if (length >= left) {
      return error(begin, fmt::format("\"{}\" has {} bytes and a line end, and {} bytes are left",
                                      name, length, left));
    }
    CorpusInput input = {name, std::string(packed_.substr(at_, length))};
    at_ += length;
    if (packed_[at_] != '\n') {
      return error(at_, fmt::format("no line end after the {} bytes of \"{}\"", length, name));
    }
    ++at_;
    return input;
  }

  const std::string_view packed_;
  size_t at_ = 0;
};

Status folder_status(const char* what, const std::string& folder, const std::error_code& error) {
  return io_error(fmt::format("cannot {} '{}': {}", what, folder, error.message()));
}

}  // namespace

Result<std::string> pack_corpus(std::vector<CorpusInput> inputs) {
  std::ranges::sort(inputs, {}, &CorpusInput::name);
  inputs.erase(std::ranges::unique(inputs).begin(), inputs.end());
  std::string packed = fmt::format("{} inputs\n", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto& [name, bytes] = inputs[i];
    LSSAR_RETURN_IF_ERROR(check_name(name));
    if (i > 0 && name == inputs[i - 1].name) {
      return invalid_argument(
          fmt::format("two inputs with different bytes are named \"{}\"", name));
    }
    packed += fmt::format("{} {}\n", name, bytes.size());
    packed += bytes;
    packed += '\n';
  }
  return packed;
}

Result<std::vector<CorpusInput>> parse_corpus(std::string_view packed) {
  return CorpusParser(packed).run();
}

Result<std::vector<CorpusInput>> read_corpus(const std::string& path) {
  LSSAR_ASSIGN_OR_RETURN(const std::string packed, read_file(path));
  auto inputs = parse_corpus(packed);
  if (!inputs.ok()) return inputs.status().with_context(path);
  return inputs;
}

Status write_corpus(const std::string& path, std::vector<CorpusInput> inputs) {
  auto packed = pack_corpus(std::move(inputs));
  if (!packed.ok()) return packed.status().with_context(path);
  return write_file_atomically(path, *packed);
}

Result<std::vector<CorpusInput>> read_input_folder(const std::string& folder) {
  std::error_code error;
  std::vector<CorpusInput> inputs;
  for (std::filesystem::directory_iterator file(folder, error), end; !error && file != end;
       file.increment(error)) {
    LSSAR_ASSIGN_OR_RETURN(std::string bytes, read_file(file->path().string()));
    inputs.push_back({file->path().filename().string(), std::move(bytes)});
  }
  if (error) return folder_status("read", folder, error);
  return inputs;
}

Status write_input_folder(const std::string& folder, const std::vector<CorpusInput>& inputs) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const bool is_empty = !error && std::filesystem::is_empty(folder, error);
  if (error) return folder_status("make", folder, error);
  if (!is_empty) return invalid_argument(fmt::format("the folder '{}' is not empty", folder));
  for (const auto& [name, bytes] : inputs) {
    LSSAR_RETURN_IF_ERROR(check_name(name));
    std::ofstream file(folder + "/" + name, std::ios::binary);
    file << bytes;
    file.close();
    if (!file) return io_error(fmt::format("cannot write '{}/{}'", folder, name));
  }
  return {};
}

std::vector<CorpusInput> new_inputs(const std::vector<CorpusInput>& corpus,
                                    const std::vector<CorpusInput>& found) {
  std::set<std::string_view> known;
  for (const CorpusInput& input : corpus) known.insert(input.bytes);
  std::vector<CorpusInput> added;
  for (const CorpusInput& input : found) {
    if (known.insert(input.bytes).second) added.push_back(input);
  }
  return added;
}

}  // namespace lssar::test
