#include "base/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>

#include "base/file.h"

namespace lssar {
namespace {

std::string le16(size_t n) { return {static_cast<char>(n & 255), static_cast<char>(n >> 8)}; }
std::string le32(size_t n) { return le16(n & 65535) + le16(n >> 16); }

// A version 1.0 file with this header text and data.
std::string npy_file(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + le16(header.size()) + header + data;
}

template <typename T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

const std::string two_by_three = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";
const std::string six_floats = raw<float>({0, 1, 2, 3, 4, 5});

class NpyFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "lssar-npy-" + unique_file_name();
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }
  std::string folder_;
};

void expect_error(const std::string& bytes, StatusCode code, const std::string& text) {
  const auto result = parse_npy_float32(bytes, "x.npy");
  ASSERT_FALSE(result.ok()) << text;
  EXPECT_EQ(result.status().code(), code) << result.status().to_string();
  EXPECT_NE(result.status().message().find(text), std::string::npos) << result.status().message();
  EXPECT_NE(result.status().message().find("'x.npy'"), std::string::npos);
}

TEST(NpyParse, ReadsFloat32) {
  const auto a = parse_npy_float32(npy_file(two_by_three, six_floats), "x.npy");
  ASSERT_TRUE(a.ok()) << a.status().to_string();
  EXPECT_EQ(a->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(a->values, (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST(NpyParse, ReadsVersions2And3) {
  for (char version : {'\x02', '\x03'}) {
    const std::string bytes = std::string("\x93NUMPY") + version + '\0' +
                              le32(two_by_three.size()) + two_by_three + six_floats;
    const auto a = parse_npy_float32(bytes, "x.npy");
    ASSERT_TRUE(a.ok()) << a.status().to_string();
    EXPECT_EQ(a->values.back(), 5.0f);
  }
}

TEST(NpyParse, ReadsFloat64AsEither) {
  const std::string bytes = npy_file("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }",
                                     raw<double>({0.1, 1e300}));
  const auto wide = parse_npy_float64(bytes, "x.npy");
  ASSERT_TRUE(wide.ok());
  EXPECT_EQ(wide->values, (std::vector<double>{0.1, 1e300}));
  const auto narrow = parse_npy_float32(bytes, "x.npy");
  ASSERT_TRUE(narrow.ok());
  EXPECT_EQ(narrow->values[0], 0.1f);
  EXPECT_EQ(narrow->values[1], std::numeric_limits<float>::infinity());
}

TEST(NpyParse, KeepsNansInfinitiesAndSignedZeros) {
  const float nan = std::nanf("1");
  const auto a =
      parse_npy_float32(npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
                                 raw<float>({nan, -std::numeric_limits<float>::infinity(), -0.0f})),
                        "x.npy");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(raw(a->values), raw<float>({nan, -std::numeric_limits<float>::infinity(), -0.0f}));
}

TEST(NpyParse, ReadsScalarsAndEmptyArrays) {
  const auto scalar = parse_npy_float32(
      npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (), }", raw<float>({7})),
      "x.npy");
  ASSERT_TRUE(scalar.ok());
  EXPECT_TRUE(scalar->shape.empty());
  EXPECT_EQ(scalar->values, std::vector<float>{7});
  const auto empty = parse_npy_float32(
      npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0, 3), }", ""), "x.npy");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->shape, (std::vector<int64_t>{2, 0, 3}));
  EXPECT_TRUE(empty->values.empty());
}

TEST(NpyParse, TakesKeysInAnyOrderAndQuoting) {
  const auto a = parse_npy_float32(
      npy_file("{\"shape\":(1,6),\"descr\":\"<f4\",\"fortran_order\":False}", six_floats), "x.npy");
  ASSERT_TRUE(a.ok()) << a.status().to_string();
  EXPECT_EQ(a->shape, (std::vector<int64_t>{1, 6}));
}

TEST(NpyParse, TruncationAtEveryLengthIsAnError) {
  const std::string whole = npy_file(two_by_three, six_floats);
  for (size_t n = 0; n < whole.size(); ++n) {
    const auto a = parse_npy_float32(std::string_view(whole).substr(0, n), "x.npy");
    ASSERT_FALSE(a.ok()) << n << " of " << whole.size() << " bytes";
    EXPECT_EQ(a.status().code(), StatusCode::kInvalidArgument) << n;
  }
}

TEST(NpyParse, AnyHeaderByteFlippedNeitherCrashesNorReadsBeyond) {
  const std::string whole = npy_file(two_by_three, six_floats);
  for (size_t i = 0; i < whole.size() - six_floats.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = whole;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const auto a = parse_npy_float32(bad, "x.npy");
      if (!a.ok()) continue;
      size_t count = 1;
      for (int64_t dim : a->shape) count *= static_cast<size_t>(dim);
      EXPECT_EQ(a->values.size(), count) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(NpyParse, NamesWhatItDoesNotRead) {
  const auto with = [](const std::string& header) { return npy_file(header, six_floats); };
  constexpr auto kBad = StatusCode::kInvalidArgument;
  constexpr auto kNo = StatusCode::kUnsupported;
  expect_error("PK\x03\x04", kBad, "not a .npy file");
  expect_error(std::string("\x93NUMPY\x09\x00\x02\x00{}", 12), kNo, "version 9.0: allowed are 1.0");
  expect_error(with("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }"), kNo,
               "Fortran order");
  expect_error(with("{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }"), kNo,
               "dtype '<f2': allowed are '<f4'");
  expect_error(with("{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }"), kNo,
               "dtype '>f4'");
  expect_error(with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }"), kBad,
               "structured");
  expect_error(npy_file(two_by_three, six_floats + "x"), kBad, "is too long: shape (2, 3)");
  expect_error(npy_file(two_by_three, six_floats.substr(1)), kBad,
               "is truncated: shape (2, 3) of '<f4' needs 24 bytes of data, the file has 23");
}

TEST(NpyParse, RefusesHostileHeaders) {
  const auto with_shape = [](const std::string& shape) {
    return npy_file("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }",
                    six_floats);
  };
  constexpr auto kBad = StatusCode::kInvalidArgument;
  expect_error(with_shape("(4294967296, 4294967296)"), kBad, "more values than fit");
  expect_error(with_shape("(9223372036854775807,)"), kBad, "more values than fit");
  expect_error(with_shape("(9223372036854775808,)"), kBad, "not an integer from 0");
  expect_error(with_shape("(-6,)"), kBad, "not an integer from 0");
  expect_error(with_shape("(-2, -3)"), kBad, "not an integer from 0");
  expect_error(with_shape("(6.0,)"), kBad, "'shape' does not end");
  expect_error(with_shape("(,)"), kBad, "not an integer from 0");
  expect_error(with_shape("[2, 3]"), kBad, "not a tuple");
  expect_error(with_shape("(1000000000000,)"), kBad, "is truncated");
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1, ";
  expect_error(with_shape(many + ")"), kBad, "over 64 dimensions");
  expect_error(npy_file("{'descr': '<f4', 'shape': (6,), }", six_floats), kBad, "lacks one of");
  expect_error(npy_file("{'descr': '<f4', 'descr': '<f4', }", six_floats), kBad, "'descr' twice");
  expect_error(npy_file("{'a\nb': 1}", six_floats), kBad, "unknown key 'a?b'");
  expect_error(npy_file(two_by_three + "x", six_floats), kBad, "goes on after its '}'");
  expect_error(npy_file("{'descr': '<f4", six_floats), kBad, "'descr' is not a string");
  expect_error(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12), kBad, "at most 65535");
}

TEST_F(NpyFile, RoundTrips) {
  const std::vector<int64_t> shape = {2, 1, 3};
  const std::vector<float> values = {0.5f, -1, 2, 3, 1e-40f, 5};
  ASSERT_TRUE(write_npy_float32(path("a.npy"), shape, values).ok());
  const auto a = read_npy_float32(path("a.npy"));
  ASSERT_TRUE(a.ok()) << a.status().to_string();
  EXPECT_EQ(a->shape, shape);
  EXPECT_EQ(a->values, values);
  EXPECT_EQ(files(), 1u) << "a temporary file was left";
}

TEST_F(NpyFile, DataBeginsAtAMultipleOf64Bytes) {
  for (int dims = 0; dims <= 64; ++dims) {
    const std::vector<int64_t> shape(static_cast<size_t>(dims), 1);
    ASSERT_TRUE(write_npy_float32(path("a.npy"), shape, std::vector<float>{3}).ok());
    const auto size = std::filesystem::file_size(path("a.npy"));
    EXPECT_EQ((size - 4) % 64, 0u) << dims << " dimensions";
    const auto a = read_npy_float32(path("a.npy"));
    ASSERT_TRUE(a.ok()) << a.status().to_string();
    EXPECT_EQ(a->shape, shape);
  }
}

TEST_F(NpyFile, WriteReplacesTheWholeFile) {
  ASSERT_TRUE(
      write_npy_float32(path("a.npy"), std::vector<int64_t>{4}, std::vector<float>(4)).ok());
  ASSERT_TRUE(
      write_npy_float32(path("a.npy"), std::vector<int64_t>{1}, std::vector<float>{9}).ok());
  const auto a = read_npy_float32(path("a.npy"));
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->values, std::vector<float>{9});
}

TEST_F(NpyFile, WriteRefusesAShapeThatIsNotTheValues) {
  const Status wrong =
      write_npy_float32(path("a.npy"), std::vector<int64_t>{2, 2}, std::vector<float>(3));
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(wrong.message().find("does not have the 3 values"), std::string::npos);
  EXPECT_EQ(
      write_npy_float32(path("a.npy"), std::vector<int64_t>{-1, -3}, std::vector<float>(3)).code(),
      StatusCode::kInvalidArgument);
  EXPECT_EQ(files(), 0u);
}

TEST_F(NpyFile, WriteIntoAMissingFolderNamesTheFile) {
  const Status status =
      write_npy_float32(path("no/such/a.npy"), std::vector<int64_t>{1}, std::vector<float>{1});
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_NE(status.message().find("no/such/a.npy"), std::string::npos) << status.message();
}

TEST_F(NpyFile, WriteOverAFolderLeavesNothingBehind) {
  std::filesystem::create_directory(path("a.npy"));
  EXPECT_EQ(write_npy_float32(path("a.npy"), std::vector<int64_t>{1}, std::vector<float>{1}).code(),
            StatusCode::kIoError);
  EXPECT_EQ(files(), 1u);
}

TEST_F(NpyFile, ReadOfWhatIsNotAFileIsAnIoError) {
  EXPECT_EQ(read_npy_float32(path("absent.npy")).status().code(), StatusCode::kIoError);
  EXPECT_EQ(read_npy_float32(folder_).status().code(), StatusCode::kIoError);
  EXPECT_EQ(read_npy_float64("/dev/null").status().code(), StatusCode::kIoError);
}

TEST_F(NpyFile, AnEmptyFileIsNotNpy) {
  std::ofstream(path("empty.npy")).close();
  EXPECT_EQ(read_npy_float32(path("empty.npy")).status().code(), StatusCode::kInvalidArgument);
}

TEST(NpyShape, PrintsAsNumPyDoes) {
  EXPECT_EQ(npy_shape_string({}), "()");
  EXPECT_EQ(npy_shape_string(std::vector<int64_t>{3}), "(3,)");
  EXPECT_EQ(npy_shape_string(std::vector<int64_t>{2, 3}), "(2, 3)");
}

}  // namespace
}  // namespace lssar
