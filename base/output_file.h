// Files that a user names: everything that -o and --json of the command write.
//
// How a file is written depends on what the name stands for:
//   -               standard output; so is a link to it (/dev/stdout)
//   nothing yet     a new file, which gets its name when it is complete
//   regular file    replaced when the new one is complete. It keeps its mode and, if the process
//                   may give it away, its owner. If no write bit is set, or this user may not
//                   write it, this is an error, for root too
//   symbolic link   resolved: the link stays, and its target is written or made
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
  // A new file's mode, subject to the umask. A replaced file keeps those of its bits that are in
  // here, and x.
  unsigned mode = 0666;
  bool replaces = true;  // false: an existing file is an error
  // The library chose the name. An existing file is always replaced, and a link, which somebody may
  // have planted, is not followed.
  bool is_own_name = false;
};

class OutputFile {
 public:
  // kIoError, naming the path: one of the errors above, or the folder is missing or not writable.
  // kInvalidArgument: the path is empty. Opening a FIFO waits for its reader.
  static Result<OutputFile> open(const std::string& path, const OutputOptions& options = {});

  Status append(std::string_view bytes);
  // After kOk, all appended bytes are in the file. No call may follow, even after an error. A file
  // that is not committed leaves the old one as it was.
  Status commit();

 private:
  friend Status commit_all(std::vector<OutputFile> files);
  OutputFile() = default;
  Status finish_writing();
  Status put_in_place();

  std::string path_;  // as the user wrote it
  bool is_standard_output_ = false, replaces_ = true;
  FileDescriptor through_;                  // otherwise:
  std::optional<AtomicFileWriter> atomic_;  // exactly one of these two is in use
};

// Puts all files in place, or none of them if one cannot be finished. An interrupt that ends the
// process takes effect before or after this, never between.
Status commit_all(std::vector<OutputFile> files);

Status write_output_file(const std::string& path, std::string_view bytes,
                         const OutputOptions& options = {});

// Whether write_output_file could write, as far as that is known beforehand. Called before long
// work. Opens and makes nothing.
Status check_output_file(const std::string& path, const OutputOptions& options = {});

// Whether the bytes go to standard output. Messages must then not go there.
bool is_standard_output(const std::string& path);

}  // namespace lssar
