// The command's options as plain values. Help, completion and the man page are made from these, so
// that they agree with the parser.
//
// Threads: plain values and pure functions.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lssar::command {

struct OptionSpec {
  std::vector<std::string> names;  // "-o", "--output"; a positional has its name
  std::string value;               // "FILE", "fp16|bf16|fp32", "[=q|k|both]"; "": it takes none
  std::string help;                // with its default
  std::string group;
  bool is_positional = false;
};

struct CommandSpec {
  std::string name;  // "lssar cache ls"
  std::string summary;
  std::string footer;
  std::vector<OptionSpec> options;  // in the order they were defined; --help too
  std::vector<CommandSpec> subcommands;
};

CommandSpec spec_of(const CLI::App& app);

// The words of "fp16|bf16|fp32"; empty if `value` is no list.
std::vector<std::string> values_of(const OptionSpec& option);

}  // namespace lssar::command
