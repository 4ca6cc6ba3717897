// Command lines that are not understood, and what their users may have meant.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lssar::command {

// Letters to insert, remove, replace or swap with their neighbour to make one word of the other.
size_t edit_distance(const std::string& a, const std::string& b);

// The words of `known` that `word` may be a misspelling of, the nearest first.
std::vector<std::string> similar_words(const std::string& word,
                                       const std::vector<std::string>& known);

// One line on what is wrong with the arguments that `app` did not parse. `error` is what it threw.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

// "unknown subcommand 'verfy': did you mean verify?", from the subcommands of `app`.
std::string unknown_subcommand(const CLI::App& app, const std::string& word);

}  // namespace lssar::command
