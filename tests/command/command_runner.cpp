#include "tests/command/command_runner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace lssar {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

CommandRunner::CommandRunner() {
  std::string pattern = std::filesystem::temp_directory_path() / "lssar_command_XXXXXX";
  folder_ = mkdtemp(pattern.data()) != nullptr ? pattern : std::string();
}

CommandRunner::~CommandRunner() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

CommandResult CommandRunner::run(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment,
                                 const CommandShell& shell) const {
  const auto& [before, redirections, folder] = shell;
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lssar";
  std::string line = before + "env";
  if (!folder.empty()) line += " --chdir=" + quoted(folder);
  // The tests of a build share a cache; a program run by hand must not touch the user's.
  if (std::getenv("LSSAR_CACHE_DIR") == nullptr)
    line += " LSSAR_CACHE_DIR=" + quoted(path("cache"));
  // Tests that name no device test a GPU's kernels. With the variable set to nothing the command
  // has its own default, auto.
  line += " LSSAR_DEVICE=virtual";
  for (const std::string& variable : environment) line += " " + quoted(variable);
  line += " " + quoted(program);
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  line += " >" + quoted(path("out")) + " 2>" + quoted(path("err")) + " </dev/null " + redirections;
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(path("out")),
          read_all(path("err"))};
}

std::string CommandRunner::write(const std::string& name, const std::string& content) const {
  std::ofstream(path(name), std::ios::binary) << content;
  return path(name);
}

}  // namespace lssar
