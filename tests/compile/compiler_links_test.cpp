// The core must not link LLVM: a training job that loads it would carry 100 MB of compiler.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>

namespace lssar {
namespace {

namespace fs = std::filesystem;

// Build folder and bundle alike have bin/ with the tests and the command, and lib/ beside it.
fs::path root() { return fs::read_symlink("/proc/self/exe").parent_path().parent_path(); }

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, n);
  return pclose(pipe) == 0 ? text : "";
}

// Every library the loader would load with `file`; "" where it cannot tell.
std::string libraries_of(const fs::path& file) { return output_of("ldd '" + file.string() + "'"); }

void expect_no_compiler(const fs::path& file) {
  const std::string libraries = libraries_of(file);
  ASSERT_NE(libraries.find("libc.so.6"), std::string::npos) << file << ": " << libraries;
  for (const char* name : {"LLVM", "clang", "lssar_llvm", "nvrtc", "libcuda"}) {
    EXPECT_EQ(libraries.find(name), std::string::npos) << file << " links " << name << ":\n"
                                                       << libraries;
  }
}

TEST(CompilerLinks, TheLibraryLinksNoCompiler) { expect_no_compiler(root() / "lib/liblssar.so"); }

TEST(CompilerLinks, TheCommandLinksNoCompiler) { expect_no_compiler(root() / "bin/lssar"); }

TEST(CompilerLinks, TheCompilerLibraryIsTheOneThatLinksLlvm) {
  const fs::path library = root() / "lib/liblssar_llvm.so";
  if (!fs::exists(library)) GTEST_SKIP() << "built without LSSAR_BUILD_LLVM_COMPILER";
  EXPECT_NE(libraries_of(library).find("libLLVM"), std::string::npos);
}

// Other symbols could be taken for those of another LLVM in the process, as torch and numba have.
TEST(CompilerLinks, TheCompilerLibraryExportsItsFunctionsOnly) {
  const fs::path library = root() / "lib/liblssar_llvm.so";
  if (!fs::exists(library)) GTEST_SKIP() << "built without LSSAR_BUILD_LLVM_COMPILER";
  std::istringstream lines(output_of("nm -D --defined-only '" + library.string() + "'"));
  int num_functions = 0;
  for (std::string address, kind, name; lines >> address >> kind >> name;) {
    EXPECT_EQ(name.rfind("lssar_llvm_", 0), 0u) << name;
    ++num_functions;
  }
  EXPECT_EQ(num_functions, 8);
}

}  // namespace
}  // namespace lssar
