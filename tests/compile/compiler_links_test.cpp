// What the library links. The core must not link LLVM: a training job that loads it would carry
// 100 MB of compiler.
#include <gnu/libc-version.h>
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

// The wheels are for glibc 2.34 and later (tools/wheel.sh). hypot, for one, has a version of 2.35.
TEST(CompilerLinks, TheLibraryNeedsNoNewerGlibcThanItsWheels) {
  if (std::string(gnu_get_libc_version()) != "2.36") GTEST_SKIP() << "wheels are made on Debian 12";
  const std::string library = (root() / "lib/liblssar.so").string();
  std::istringstream lines(output_of("nm -D --undefined-only '" + library + "'"));
  int num_symbols = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string version = "@GLIBC_2.";
    const size_t at = line.find(version);
    if (at == std::string::npos) continue;
    EXPECT_LE(std::stoi(line.substr(at + version.size())), 34) << line;
    ++num_symbols;
  }
  EXPECT_GT(num_symbols, 0);
}

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
