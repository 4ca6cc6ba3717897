#include "tests/golden/golden_case.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace lssar {
namespace {

namespace fs = std::filesystem;

// A folder of cases of its own, for as long as a test runs.
class GoldenFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* before = std::getenv("LSSAR_TEST_DATA");
    before_ = before == nullptr ? "" : before;
    const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::path(::testing::TempDir()) / ("lssar_golden_" + test);
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    setenv("LSSAR_TEST_DATA", before_.c_str(), 1);
    fs::remove_all(folder_);
  }

  void use_folder() { setenv("LSSAR_TEST_DATA", folder_.c_str(), 1); }
  // REQUIRES: the source's folder is still in use.
  void copy_case(const std::string& name) {
    fs::copy(fs::path(golden_data_folder()) / name, folder_ / name);
  }

  std::string before_;
  fs::path folder_;
};

TEST_F(GoldenFolder, ComesFromTheEnvironment) {
  copy_case("three_tokens");
  use_folder();
  const Result<std::vector<std::string>> names = golden_case_names();
  ASSERT_TRUE(names.ok()) << names.status().to_string();
  EXPECT_EQ(*names, std::vector<std::string>{"three_tokens"});
  EXPECT_TRUE(load_golden_case("three_tokens").ok());
}

TEST_F(GoldenFolder, WithoutCasesIsAnError) {
  use_folder();
  const Status status = golden_case_names().status();
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find(folder_.string()), std::string::npos);
}

TEST_F(GoldenFolder, MissingTensorIsNamed) {
  copy_case("three_tokens");
  use_folder();
  fs::remove(folder_ / "three_tokens" / "dk.npy");
  const Status status = load_golden_case("three_tokens").status();
  EXPECT_NE(status.message().find("dk.npy"), std::string::npos) << status.message();
}

TEST_F(GoldenFolder, WrongShapeIsRefused) {
  copy_case("three_tokens");
  copy_case("one_token");
  use_folder();
  fs::copy_file(folder_ / "one_token" / "v.npy", folder_ / "three_tokens" / "v.npy",
                fs::copy_options::overwrite_existing);
  const Status status = load_golden_case("three_tokens").status();
  EXPECT_NE(status.message().find("v.npy: shape (1, 1, 1, 64): spec.json says (1, 1, 3, 64)"),
            std::string::npos)
      << status.message();
}

TEST_F(GoldenFolder, DamagedSpecIsRefused) {
  copy_case("three_tokens");
  use_folder();
  std::ofstream(folder_ / "three_tokens" / "spec.json") << "{\"batch\": 1";
  EXPECT_NE(load_golden_case("three_tokens").status().message().find("is not JSON"),
            std::string::npos);
  std::ofstream(folder_ / "three_tokens" / "spec.json") << "{\"batch\": 1}";
  EXPECT_NE(load_golden_case("three_tokens").status().message().find("spec.heads is missing"),
            std::string::npos);
}

TEST(GoldenCase, CarriesSpecAndTensors) {
  const Result<GoldenCase> golden = load_golden_case("gqa_4_2");
  ASSERT_TRUE(golden.ok()) << golden.status().to_string();
  EXPECT_EQ(golden->problem.dtype, DType::kBf16);
  EXPECT_EQ(golden->sizes.heads, 4);
  EXPECT_EQ(golden->sizes.kv_heads, 2);
  EXPECT_EQ(golden->q.size(), 4u * 40 * 64);
  EXPECT_EQ(golden->dk.size(), 2u * 40 * 64);
  EXPECT_GT(golden->floor_dq, 0);
}

}  // namespace
}  // namespace lssar
