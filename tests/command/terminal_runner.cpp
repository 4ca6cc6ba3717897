#include "tests/command/terminal_runner.h"

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace lssar {

std::string run_on_terminal(int columns, const std::vector<std::string>& arguments,
                            const std::vector<std::string>& environment) {
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lssar";
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  winsize size = {};
  size.ws_row = 25;
  size.ws_col = static_cast<unsigned short>(columns);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) return "";
  if (child == 0) {
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    execv(program.c_str(), words.data());
    _exit(127);
  }
  std::string text;
  char bytes[4096];
  for (ssize_t got; (got = read(terminal, bytes, sizeof(bytes))) > 0;) text.append(bytes, got);
  close(terminal);
  waitpid(child, nullptr, 0);
  text.erase(std::remove(text.begin(), text.end(), '\r'), text.end());
  return text;
}

}  // namespace lssar
