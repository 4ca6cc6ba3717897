// lssar run --cu-seqlens: each sequence of packed files as a run of it alone.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/npy.h"
#include "base/output_file.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kDim = 16;

// A .npy file of integers, "<i4" or "<i8", of one dimension.
template <typename T>
std::string integers(const std::vector<T>& values) {
  std::string header = "{'descr': '<i" + std::to_string(sizeof(T)) +
                       "', 'fortran_order': False, 'shape': (" + std::to_string(values.size()) +
                       ",), }\n";
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += {static_cast<char>(header.size()), 0};
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return bytes;
}

std::vector<float> random_values(int64_t count) {
  static std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// [rows, heads, dim].
struct Packed {
  int64_t heads;
  std::vector<float> values;

  // Rows [first, end) as [1, heads, end - first, dim].
  std::vector<float> part(int64_t first, int64_t end) const {
    std::vector<float> part;
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t row = first; row < end; ++row)
        for (int64_t i = 0; i < kDim; ++i)
          part.push_back(values[static_cast<size_t>((row * heads + head) * kDim + i)]);
    return part;
  }
};

class PackedRun : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::vector<int64_t>& shape,
             const std::vector<float>& values) {
    ASSERT_TRUE(write_npy_float32(command_.path(name), shape, values).ok());
  }
  void write_bytes(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(write_output_file(command_.path(name), bytes).ok());
  }
  void SetUp() override {
    std::filesystem::create_directory(command_.path("alone"));
    for (auto [name, packed] : {std::pair{"q", &q_}, {"k", &k_}, {"v", &v_}, {"do", &do_}}) {
      const auto rows = static_cast<int64_t>(packed->values.size()) / packed->heads / kDim;
      write(std::string(name) + ".npy", {rows, packed->heads, kDim}, packed->values);
    }
    write_bytes("cu_q.npy", integers<int32_t>({0, 7, 7, 27}));
    write_bytes("cu_k.npy", integers<int64_t>({0, 9, 12, 32}));
  }
  CommandResult run(const std::string& pass, const std::string& folder,
                    const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run", "--pass", pass, "--causal", "--dtype", "fp32"};
    for (const std::string name : {"q", "k", "v"})
      words.insert(words.end(), {"--" + name, command_.path(folder + name + ".npy")});
    if (pass == "backward") words.insert(words.end(), {"--do", command_.path(folder + "do.npy")});
    words.insert(words.end(), {"--device", "cpu", "--out", command_.path(folder + "results")});
    words.insert(words.end(), more.begin(), more.end());
    return command_.run(words);
  }
  std::vector<std::string> both() const {
    return {"--cu-seqlens", command_.path("cu_q.npy"), "--cu-seqlens-k", command_.path("cu_k.npy")};
  }
  // A result of the packed run beside that of the sequence with these rows, whose run wrote into
  // alone/results.
  void expect_part(const std::string& name, int64_t heads, int64_t first, int64_t end) {
    const auto all = read_npy_float32(command_.path("results/" + name));
    const auto alone = read_npy_float32(command_.path("alone/results/" + name));
    ASSERT_TRUE(all.ok() && alone.ok());
    ASSERT_EQ(all->shape.size(), 3u);
    ASSERT_EQ(all->shape[1], heads);
    const std::vector<float> part = Packed{heads, all->values}.part(first, end);
    ASSERT_EQ(part.size(), alone->values.size());
    for (size_t i = 0; i < part.size(); ++i)
      ASSERT_NEAR(part[i], alone->values[i], 2e-5 * (1 + std::abs(part[i]))) << name << " " << i;
  }

  const Packed q_ = {kHeads, random_values(27 * kHeads * kDim)};
  const Packed k_ = {kKvHeads, random_values(32 * kKvHeads * kDim)};
  const Packed v_ = {kKvHeads, random_values(32 * kKvHeads * kDim)};
  const Packed do_ = {kHeads, random_values(27 * kHeads * kDim)};
  const CommandRunner command_;
};

TEST_F(PackedRun, IsEachSequenceAlone) {
  const CommandResult packed = run("backward", "", both());
  ASSERT_EQ(packed.exit_code, 0) << packed.err;
  for (const auto& [q0, q1, k0, k1] :
       {std::array<int64_t, 4>{0, 7, 0, 9}, std::array<int64_t, 4>{7, 27, 12, 32}}) {
    write("alone/q.npy", {1, kHeads, q1 - q0, kDim}, q_.part(q0, q1));
    write("alone/k.npy", {1, kKvHeads, k1 - k0, kDim}, k_.part(k0, k1));
    write("alone/v.npy", {1, kKvHeads, k1 - k0, kDim}, v_.part(k0, k1));
    write("alone/do.npy", {1, kHeads, q1 - q0, kDim}, do_.part(q0, q1));
    const CommandResult alone = run("backward", "alone/", {});
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    expect_part("dq.npy", kHeads, q0, q1);
    expect_part("dk.npy", kKvHeads, k0, k1);
    expect_part("dv.npy", kKvHeads, k0, k1);
  }
  ASSERT_EQ(run("forward", "", both()).exit_code, 0);
  ASSERT_EQ(run("forward", "alone/", {}).exit_code, 0);
  expect_part("o.npy", kHeads, 7, 27);
}

TEST_F(PackedRun, AProblemFileMayStateTheLongestLengths) {
  for (const char* most : {"20", "19"}) {
    write_bytes("problem.json", std::string(R"({"varlen": true, "seq_q": )") + most + "}");
    std::vector<std::string> words = both();
    words.insert(words.end(), {"--problem", command_.path("problem.json")});
    const CommandResult result = run("forward", "", words);
    const bool suffices = most == std::string("20");
    EXPECT_EQ(result.exit_code, suffices ? 0 : 2) << result.err;
    if (!suffices)
      EXPECT_NE(result.err.find("sizes.seq_q = 20: allowed are 0 to 19"), std::string::npos)
          << result.err;
  }
}

TEST_F(PackedRun, AProblemFileOfSequencesNeedsTheirLengths) {
  write_bytes("problem.json", R"({"varlen": true, "seq_q": 20, "seq_k": 20})");
  const std::string file = command_.path("problem.json");
  write("alone/q.npy", {1, kHeads, 7, kDim}, q_.part(0, 7));
  write("alone/k.npy", {1, kKvHeads, 9, kDim}, k_.part(0, 9));
  write("alone/v.npy", {1, kKvHeads, 9, kDim}, v_.part(0, 9));
  const auto refuse = [](const CommandResult& result, const std::string& wanted) {
    EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
    EXPECT_NE(result.err.find(wanted), std::string::npos) << result.err;
  };
  refuse(run("forward", "alone/", {"--problem", file}), "--cu-seqlens: not given");
  refuse(command_.run({"run", "--random", "--device", "virtual", "--problem", file}),
         "--cu-seqlens: not given");
  refuse(command_.run({"verify", "--device", "virtual", "--problem", file}),
         "--lengths: not given");
}

TEST_F(PackedRun, NamesWhatIsWrong) {
  write_bytes("down.npy", integers<int32_t>({0, 9, 8, 27}));
  write_bytes("short.npy", integers<int32_t>({0, 9, 26}));
  write_bytes("few.npy", integers<int32_t>({0, 32}));
  write("flat.npy", {27, kHeads * kDim}, q_.values);
  write("short_v.npy", {31, kKvHeads, kDim}, random_values(31 * kKvHeads * kDim));
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--cu-seqlens", command_.path("down.npy")}, "entry 2 is 8; allowed are 9 to 27"},
      {{"--cu-seqlens", command_.path("short.npy")},
       "the last entry is 26; allowed is 27, the rows of --q"},
      {{"--cu-seqlens", command_.path("cu_q.npy")},
       "the last entry is 27; allowed is 32, the rows of --k"},
      {{"--cu-seqlens", command_.path("cu_q.npy"), "--cu-seqlens-k", command_.path("few.npy")},
       "2 entries; allowed are 4, those of --cu-seqlens"},
      {{"--cu-seqlens", command_.path("q.npy")}, "dtype '<f4': allowed are '<i4' (int32)"},
      {{}, "has 3 dimensions; allowed is [batch, heads, length, dim]"},
      {{"--cu-seqlens-k", command_.path("cu_k.npy")}, "--cu-seqlens-k requires --cu-seqlens"},
  };
  for (const auto& [words, wanted] : cases) {
    const CommandResult result = run("forward", "", words);
    EXPECT_EQ(result.exit_code, 2) << wanted;
    EXPECT_NE(result.err.find(wanted), std::string::npos) << result.err;
  }
  struct Files {
    const char* q;
    const char* v;
    const char* wanted;
  };
  for (const Files& files :
       {Files{"flat.npy", "v.npy", "allowed is [rows, heads, dim] with --cu-seqlens"},
        Files{"q.npy", "short_v.npy",
              "--v: shape (31, 2, 16) does not fit the other files; it must be (32, 2, 16)"}}) {
    const CommandResult result = command_.run(
        {"run", "--q", command_.path(files.q), "--k", command_.path("k.npy"), "--v",
         command_.path(files.v), "--cu-seqlens", command_.path("cu_q.npy"), "--out",
         command_.path("results")});
    EXPECT_EQ(result.exit_code, 2) << files.wanted;
    EXPECT_NE(result.err.find(files.wanted), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace lssar
