#include "runtime/debug/dump.h"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/log.h"
#include "compile/compile_failure.h"

namespace lssar {
namespace {

Status dump(const std::string& folder, const Compiler& compiler, const CompileRequest& request,
            const std::string& key, const Result<Image>& result) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return io_error(error.message());
  const std::string stem = fmt::format("{}/{}.{}", folder, request.name, key);
  LSSAR_RETURN_IF_ERROR(
      write_file_atomically(stem + request.target.source_extension(), request.source));
  const std::string said = result.ok() ? result->log : result.status().message();
  LSSAR_RETURN_IF_ERROR(write_file_atomically(
      stem + ".log",
      fmt::format("{} {} for {}\noptions: {}\nlog:\n{}\n", compiler.name(), compiler.version(),
                  request.target.name(), join_options(compiler.options(request)),
                  said.empty() ? "(empty)" : said)));
  if (!result.ok()) return {};
  LSSAR_RETURN_IF_ERROR(write_file_atomically(
      fmt::format("{}.{}", stem, image_kind_name(result->kind)), result->bytes));
  if (result->kind != ImageKind::kCubin || !compiler.can_make(ImageKind::kPtx)) return {};
  CompileRequest to_ptx = request;
  to_ptx.kind = ImageKind::kPtx;
  LSSAR_ASSIGN_OR_RETURN(const Image ptx, compiler.compile(to_ptx));
  return write_file_atomically(stem + ".ptx", ptx.bytes);
}

}  // namespace

void dump_compile(const Compiler& compiler, const CompileRequest& request, const std::string& key,
                  const Result<Image>& result) {
  const char* folder = std::getenv("LSSAR_DUMP_DIR");
  if (folder == nullptr || folder[0] == '\0') return;
  try {
    const Status status = dump(folder, compiler, request, key, result);
    if (status.ok()) return;
    log(LogLevel::kWarning, fmt::format("LSSAR_DUMP_DIR = {}: {}: not written: {}", folder,
                                        request.name, status.message()));
  } catch (const std::exception&) {
    // Out of memory while the texts are made. A dump must not make a compile fail.
  }
}

}  // namespace lssar
