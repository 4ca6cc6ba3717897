// The real file system with failures and a clock of the test's.
#pragma once

#include <atomic>
#include <string>

#include "cache/file_system.h"

namespace lssar {

class FakeFileSystem final : public FileSystem {
 public:
  std::atomic<bool> fail_prepare{false}, fail_read{false}, fail_write{false}, fail_list{false},
      fail_remove{false}, fail_stamp{false}, on_network{false};
  std::atomic<int> reads{0}, writes{0}, lists{0}, stamps{0};
  std::atomic<int64_t> clock_offset_ns{0};
  std::string last_temporary;  // of a test with one thread

  Status prepare_folder(const std::string& path) override {
    if (fail_prepare) return io_error("prepare fails: '" + path + "'");
    return real_.prepare_folder(path);
  }
  Status check_folder(const std::string& path) override { return real_.check_folder(path); }
  bool is_node_local(const std::string& path) override {
    return !on_network && real_.is_node_local(path);
  }
  Result<std::string> read_private(const std::string& path, uint64_t max_bytes,
                                   FileState* state) override {
    ++reads;
    if (fail_read) return io_error("Stale file handle");
    return real_.read_private(path, max_bytes, state);
  }
  Status write(const std::string& path, std::string_view bytes,
               const std::string& temporary) override {
    ++writes;
    last_temporary = temporary;
    if (fail_write) return io_error("No space left on device");
    return real_.write(path, bytes, temporary);
  }
  Result<std::vector<ListedFile>> list(const std::string& folder) override {
    ++lists;
    if (fail_list) return io_error("Stale file handle");
    return real_.list(folder);
  }
  Status remove(const std::string& path, const FileState& state) override {
    if (fail_remove) return io_error("Device or resource busy");
    return real_.remove(path, state);
  }
  Status stamp(const std::string& path, int64_t time_ns) override {
    ++stamps;
    if (fail_stamp) return io_error("Read-only file system");
    return real_.stamp(path, time_ns);
  }
  int64_t now_ns() override { return real_.now_ns() + clock_offset_ns; }

 private:
  FileSystem& real_ = posix_file_system();
};

}  // namespace lssar
