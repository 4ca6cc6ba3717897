// Files that a user names: what every -o and --json of the command writes.
//
// What the name stands for decides how it is written:
//   -               standard output; so is a link to it (/dev/stdout)
//   nothing yet     a new file, under its name once it is whole
//   regular file    replaced by a new one once that is whole; it keeps its mode and, where the
//                   process may give it, its owner. One without a bit that allows writing, or that
//                   this user may not write, is left alone: an error, for root too
//   symbolic link   resolved: the link stays, what it names is written, or made
//   hard link       this name gets the new file; other names keep the old one
//   device, FIFO    opened and written through, never replaced
//   folder, socket  an error
//
// Threads: an OutputFile belongs to one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace lssar {

struct OutputOptions {
  // A new file's mode, subject to the umask. An old file keeps its bits that are here, and x.
  unsigned mode = 0666;
  bool replaces = true;  // false: an error where there is a file
  // The library made the name up: whatever has it is replaced, and no link is followed that
  // somebody may have put there.
  bool is_own_name = false;
};

class OutputFile {
 public:
  // kIoError, naming the path: see above; the folder is missing or cannot be written.
  // kInvalidArgument: the path is empty. A FIFO is waited for until somebody reads it.
  static Result<OutputFile> open(const std::string& path, const OutputOptions& options = {});

  Status append(std::string_view bytes);
  // What was appended is there when it returns kOk. Nothing may follow, whatever it returns. A file
  // that was not committed leaves what was there before.
  Status commit();

 private:
  friend Status commit_all(std::vector<OutputFile> files);
  OutputFile() = default;
  Status finish_writing();
  Status put_in_place();

  std::string path_;  // as the user wrote it
  bool is_standard_output_ = false, replaces_ = true;
  FileDescriptor through_;                  // else:
  std::optional<AtomicFileWriter> atomic_;  // one of the two
};

// Puts all in place, or where one cannot be finished none. Interrupts that end the process come
// before or after it.
Status commit_all(std::vector<OutputFile> files);

Status write_output_file(const std::string& path, std::string_view bytes,
                         const OutputOptions& options = {});

// Whether write_output_file could write, as far as can be said before: asked before long work.
// Opens and makes nothing.
Status check_output_file(const std::string& path, const OutputOptions& options = {});

// Whether the bytes go to standard output, so that messages must not.
bool is_standard_output(const std::string& path);

}  // namespace lssar
