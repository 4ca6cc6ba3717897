// LSSAR_DUMP_DIR: what every compile leaves there, and that no compile fails because of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "runtime/engine.h"
#include "tests/capi/fakes.h"

namespace lssar {
namespace {

class Dump : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "lssar_dump_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    setenv("LSSAR_DUMP_DIR", (folder_ + "/made").c_str(), 1);
  }
  void TearDown() override {
    unsetenv("LSSAR_DUMP_DIR");
    std::filesystem::remove_all(folder_);
  }

  Result<std::shared_ptr<const PreparedKernel>> prepare() {
    EngineOptions options;
    options.cache.directory = "none";
    options.compile_options = {"-lineinfo"};
    return Engine::create(options, device_, compiler_)->prepare({});
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/made")) {
      found.push_back(entry.path().filename());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string content(const std::string& name) const {
    return read_file(folder_ + "/made/" + name).value();
  }

  std::string folder_;
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::shared_ptr<FakeCompiler> compiler_ = std::make_shared<FakeCompiler>();
};

TEST_F(Dump, SourcePtxAndLogUnderTheKey) {
  const auto kernel = prepare();
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  const std::string stem = (*kernel)->source.name + "." + (*kernel)->key;
  ASSERT_EQ(names(), (std::vector<std::string>{stem + ".cu", stem + ".log", stem + ".ptx"}));
  EXPECT_EQ(content(stem + ".cu"), (*kernel)->source.source);
  EXPECT_EQ(content(stem + ".ptx"), (*kernel)->loaded->image.bytes);
  EXPECT_EQ(content(stem + ".log"),
            "fake 1.0 for sm_80\noptions: -lineinfo\nlog:\n" + compiler_->log_ + "\n");
}

TEST_F(Dump, PtxBesideACubin) {
  compiler_->makes_cubin_ = true;
  const auto kernel = prepare();
  ASSERT_TRUE(kernel.ok()) << kernel.status().to_string();
  const std::string stem = (*kernel)->source.name + "." + (*kernel)->key;
  EXPECT_EQ(names(), (std::vector<std::string>{stem + ".cu", stem + ".cubin", stem + ".log",
                                               stem + ".ptx"}));
}

TEST_F(Dump, SourceAndLogOfWhatDoesNotCompile) {
  compiler_->fails_ = true;
  EXPECT_EQ(prepare().status().code(), StatusCode::kCompileError);
  const std::vector<std::string> found = names();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(content(found[1]).find(": refused"), std::string::npos);
}

TEST_F(Dump, AFolderThatCannotBeMadeIsAWarning) {
  const std::string file = folder_ + "/file";
  ASSERT_TRUE(write_file_atomically(file, "").ok());
  setenv("LSSAR_DUMP_DIR", file.c_str(), 1);
  std::string warning;
  set_log_callback([&](LogLevel, std::string_view text) { warning = text; }, LogLevel::kWarning);
  const auto kernel = prepare();
  set_log_callback({}, LogLevel::kError);
  EXPECT_TRUE(kernel.ok()) << kernel.status().to_string();
  EXPECT_EQ(warning.find("LSSAR_DUMP_DIR = " + file), 0u) << warning;
}

TEST_F(Dump, NothingWithoutTheVariable) {
  unsetenv("LSSAR_DUMP_DIR");
  ASSERT_TRUE(prepare().ok());
  EXPECT_EQ(compiler_->num_compiles_, 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace lssar
