// Runs another program and reads its output. Used for NVIDIA's disassembler and for diff.
//
// Threads: any number at once.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "base/temporaries.h"

namespace lssar {

struct ProgramResult {
  int exit_code = 0;  // or 128 + the signal that ended it
  std::string out, err;
};

// `arguments[0]` is a path, or a name to look up in PATH. Uses no shell, and the input is empty.
// Waits until the program ends. Errors: kMissing if it cannot be started; kIoError for pipes and
// temporary files.
Result<ProgramResult> run_program(const std::vector<std::string>& arguments);

// A file in a folder that only this user can read. It is removed with this object.
class TemporaryFile {
 public:
  static Result<TemporaryFile> create(const std::string& name, const std::string& bytes);
  const std::string& path() const { return path_; }

 private:
  TemporaryFile(TemporaryName folder, std::string path)
      : folder_(std::move(folder)), path_(std::move(path)) {}

  TemporaryName folder_;
  std::string path_;
};

}  // namespace lssar
