#include "compile/compile_failure.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/open_descriptor.h"
#include "base/temporaries.h"
#include "base/write_signals.h"

namespace lssar {
namespace {

constexpr size_t kMaxNameChars = 100;
constexpr int kMaxAttempts = 100;

// A request's name may contain anything; a file's name must not.
std::string file_name_part(const std::string& name) {
  std::string part = name.substr(0, kMaxNameChars);
  for (char& c : part) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return part.empty() ? "kernel" : part;
}

Status write_all(int file, const std::string& bytes, const std::string& path) {
  const WriteSignalGuard guard;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(fmt::format("{}: {}", path, std::strerror(errno)));
    done += static_cast<size_t>(n);
  }
  return {};
}

Result<std::filesystem::path> dump_directory() {
  std::error_code error;
  const char* wanted = std::getenv("LSSAR_DUMP_DIR");
  if (wanted != nullptr && wanted[0] != '\0') {
    std::filesystem::create_directories(wanted, error);
    if (error) return io_error(fmt::format("LSSAR_DUMP_DIR = {}: {}", wanted, error.message()));
    return std::filesystem::path(wanted);
  }
  return std::filesystem::path(temporary_folder());
}

}  // namespace

Result<std::string> dump_source(const CompileRequest& request) {
  static std::atomic<int> next{0};
  LSSAR_ASSIGN_OR_RETURN(const std::filesystem::path directory, dump_directory());
  std::string path;
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    path = (directory / fmt::format("{}-{}-{}-{}{}", file_name_part(request.name),
                                    file_name_part(request.target.name()), getpid(), next++,
                                    request.target.source_extension()))
               .string();
    FileDescriptor file = open_descriptor(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    const bool is_open = file.get() >= 0;
    if (!is_open && errno == EEXIST) continue;  // an earlier process with this number left it
    if (!is_open) break;
    Status status = write_all(file.get(), request.source, path);
    if (file.close() != 0 && status.ok()) {
      status = io_error(fmt::format("{}: {}", path, std::strerror(errno)));
    }
    if (!status.ok()) {
      ::unlink(path.c_str());
      return status;
    }
    return path;
  }
  return io_error(fmt::format("{}: {}", path, std::strerror(errno)));
}

std::string join_options(const std::vector<std::string>& options) {
  std::string text;
  for (const std::string& option : options) {
    if (!text.empty()) text += ' ';
    const bool quote = option.empty() || option.find_first_of(" \t'\"$") != std::string::npos;
    text += quote ? fmt::format("'{}'", option) : option;
  }
  return text;
}

Status compile_failure(const Compiler& compiler, const CompileRequest& request,
                       const std::string& log) {
  const Result<std::string> dumped = dump_source(request);
  return compile_error(fmt::format(
      "kernel {} for {}: refused by {} {}\noptions: {}\nsource: {}\nlog:\n{}", request.name,
      request.target.name(), compiler.name(), compiler.version(),
      join_options(compiler.options(request)),
      dumped.ok() ? *dumped : fmt::format("not written ({})", dumped.status().message()),
      log.empty() ? "(empty)" : log));
}

}  // namespace lssar
