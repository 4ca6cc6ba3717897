// Runs the lssar command as a user would and captures what it prints. The command lies beside the
// test programs, in the build folder and in the bundle alike.
//
// Threads: each CommandRunner has a folder of its own; one thread each.
#pragma once

#include <string>
#include <vector>

namespace lssar {

struct CommandResult {
  int exit_code = -1;  // -1: it did not exit by itself
  std::string out;
  std::string err;
};

// What the shell does around the command.
struct CommandShell {
  std::string before = {};        // "ulimit -f 1; "
  std::string redirections = {};  // ">/dev/full": instead of capturing
  std::string folder = {};        // the working directory; "": this process's
};

// A temporary folder, removed at the end. The command gets the cache that LSSAR_CACHE_DIR names,
// else one in the folder.
class CommandRunner {
 public:
  CommandRunner();
  ~CommandRunner();
  CommandRunner(const CommandRunner&) = delete;
  CommandRunner& operator=(const CommandRunner&) = delete;

  // `environment`: "NAME=value" on top of this process's.
  CommandResult run(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {},
                    const CommandShell& shell = {}) const;

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::string folder_;
};

}  // namespace lssar
