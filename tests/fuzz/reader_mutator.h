// Changes inputs of the readers so that they stay what they are: a JSON document, a table of
// records, a struct of numbers.
//
// Threads: a mutator belongs to one.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace lssar::test {

class ReaderMutator {
 public:
  explicit ReaderMutator(uint32_t seed) : random_(seed) {}

  // One value, name or element of the document is another; what is no JSON comes back as it is.
  std::string json(const std::string& text);
  // The same of one line.
  std::string lines(const std::string& text);
  // An aligned number of the first `bytes` bytes is another.
  std::string number(std::string text, size_t bytes);

 private:
  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  int64_t integer();
  void change(nlohmann::json& value);
  nlohmann::json& pick(nlohmann::json& document);
  nlohmann::json other_value(const nlohmann::json& value);

  std::mt19937 random_;
};

// How the reader of this name changes an input, other than byte by byte.
std::string mutate_input(const char* reader, const std::string& input, uint32_t seed);

}  // namespace lssar::test
