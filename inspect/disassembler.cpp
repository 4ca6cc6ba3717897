#include "inspect/disassembler.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "inspect/run_program.h"

namespace lssar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProgram = "nvdisasm";
constexpr const char* kHowToGet =
    "install a CUDA toolkit, or NVIDIA's wheel (pip install nvidia-cuda-nvdisasm), or name one "
    "with "
    "LSSAR_NVDISASM";

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_program(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

void add_path(std::vector<std::string>* folders) {
  const std::string path = environment("PATH");
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find(':', at), path.size());
    if (end > at) folders->push_back(path.substr(at, end - at));
    at = end + 1;
  }
}

// The names in `folder` that begin with `prefix`, newest first (by name).
std::vector<std::string> children(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().rfind(prefix, 0) == 0) found.push_back(at->path().string());
  }
  std::sort(found.rbegin(), found.rend());
  return found;
}

void add_toolkits(std::vector<std::string>* folders) {
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::string root = environment(name); !root.empty())
      folders->push_back(root + "/bin");
  }
  for (const std::string& root : children("/usr/local", "cuda")) folders->push_back(root + "/bin");
}

// NVIDIA's wheels install into nvidia/<package>/bin of the site-packages folder.
void add_wheels(std::vector<std::string>* folders) {
  std::vector<std::string> roots;
  if (const std::string root = environment("VIRTUAL_ENV"); !root.empty())
    roots.push_back(root + "/lib");
  if (const std::string home = environment("HOME"); !home.empty())
    roots.push_back(home + "/.local/lib");
  roots.insert(roots.end(), {"/usr/local/lib", "/usr/lib"});
  for (const std::string& root : roots) {
    for (const std::string& python : children(root, "python3")) {
      for (const char* packages : {"/site-packages/nvidia", "/dist-packages/nvidia"}) {
        for (const std::string& package : children(python + packages, "cu"))
          folders->push_back(package + "/bin");
      }
    }
  }
}

}  // namespace

Result<std::string> find_disassembler() {
  if (const std::string named = environment("LSSAR_NVDISASM"); !named.empty()) {
    if (named != "none" && is_program(named)) return named;
    return missing(fmt::format("LSSAR_NVDISASM = '{}': no such program; {}", named, kHowToGet));
  }
  std::vector<std::string> folders;
  add_path(&folders);
  add_toolkits(&folders);
  add_wheels(&folders);
  for (const std::string& folder : folders) {
    if (const std::string path = folder + "/" + kProgram; is_program(path)) return path;
  }
  return missing(
      fmt::format("{} was not found in PATH, in a CUDA toolkit or among Python's packages: {}",
                  kProgram, kHowToGet));
}

Result<std::string> disassemble(const std::string& cubin, ListingWords words) {
  LSSAR_ASSIGN_OR_RETURN(const std::string program, find_disassembler());
  LSSAR_ASSIGN_OR_RETURN(const TemporaryFile file, TemporaryFile::create("kernel.cubin", cubin));
  std::vector<std::string> command = {program, "-c", "-g"};
  if (words == ListingWords::kShown) command.push_back("-hex");
  command.push_back(file.path());
  LSSAR_ASSIGN_OR_RETURN(ProgramResult result, run_program(command));
  if (result.exit_code != 0) {
    return io_error(fmt::format("{} ended with {}: {}", program, result.exit_code, result.err));
  }
  return std::move(result.out);
}

}  // namespace lssar
