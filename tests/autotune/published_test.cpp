// The cost model beside published times of softmax attention. docs/performance.md has the table;
// LSSAR_UPDATE_DOCS=1 writes it instead of comparing.
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/autotune/published_times.h"

namespace lssar {
namespace {

double error_of(const PublishedRow& row, int i, const GpuModel& gpu) {
  return predicted_tflops(row, kPaperLengths[size_t(i)], gpu) / row.tflops[size_t(i)] - 1;
}

double mean_error(const PublishedRow& row, const GpuModel& gpu) {
  double sum = 0;
  int count = 0;
  for (int i = 0; i < kNumLengths; ++i) {
    if (row.tflops[size_t(i)] == 0) continue;
    sum += std::abs(error_of(row, i, gpu));
    ++count;
  }
  return sum / count;
}

std::string row_name(const PublishedRow& row) {
  return fmt::format("{}, {}, {}, d {}{}", row.source.library, row.source.gpu,
                     row.source.pass == Pass::kForward ? "forward" : "backward", row.dim,
                     row.causal ? ", causal" : "");
}

TEST(PublishedTimes, TheModelIsAsNearAsItWas) {
  for (const PublishedRow& row : kPublishedRows) {
    const double error = mean_error(row, gpu_of(row));
    EXPECT_LT(error, row.mean_error) << row_name(row);
    // A bound that is far above the error would not fail when the model gets worse.
    EXPECT_GT(error, row.mean_error / 2) << row_name(row);
  }
}

// Two constants are fitted to the first row. No other values of them come nearer to it.
TEST(PublishedTimes, FittedConstantsAreTheBestOnes) {
  const PublishedRow& row = kPublishedRows[0];
  ASSERT_TRUE(is_fitted(row));
  const auto squares = [&](double sustained, double tile_clocks) {
    GpuModel gpu = gpu_of(row);
    gpu.sustained = sustained;
    gpu.constants.tile_clocks = tile_clocks;
    double sum = 0;
    for (int i = 0; i < kNumLengths; ++i) sum += std::pow(std::log1p(error_of(row, i, gpu)), 2);
    return sum;
  };
  const GpuModel gpu = gpu_of(row);
  const double best = squares(gpu.sustained, gpu.constants.tile_clocks);
  for (const double by : {-0.01, 0.01})
    EXPECT_GT(squares(gpu.sustained + by, gpu.constants.tile_clocks), best) << by;
  for (const double by : {-300.0, 300.0})
    EXPECT_GT(squares(gpu.sustained, gpu.constants.tile_clocks + by), best) << by;
}

// If sums cost the L2 four times their bytes, FlashAttention-3's backward at 16K would be a third
// slower than it is.
TEST(PublishedTimes, SumsOfFourTimesTheirBytesContradictABackward) {
  for (const PublishedRow& row : kPublishedRows) {
    if (row.source.pass != Pass::kBackward) continue;
    GpuModel gpu = gpu_of(row);
    const double now = std::abs(error_of(row, kNumLengths - 1, gpu));
    gpu.constants.sum_cost = 4;
    EXPECT_LT(error_of(row, kNumLengths - 1, gpu), -0.2) << row_name(row);
    EXPECT_LT(now, 0.12) << row_name(row);
  }
}

std::string table() {
  std::string text =
      "| kernel | 512 | 1K | 2K | 4K | 8K | 16K | mean error |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const PublishedRow& row : kPublishedRows) {
    text += fmt::format("| {}{} |", row_name(row), is_fitted(row) ? " (fitted)" : "");
    const GpuModel gpu = gpu_of(row);
    for (int i = 0; i < kNumLengths; ++i) {
      const double published = row.tflops[size_t(i)];
      text += published == 0 ? std::string(" |")
                             : fmt::format(" {:.0f} / {:.0f} ({:+.0f} %) |",
                                           predicted_tflops(row, kPaperLengths[size_t(i)], gpu),
                                           published, 100 * error_of(row, i, gpu));
    }
    text += fmt::format(" {:.1f} % |\n", 100 * mean_error(row, gpu));
  }
  return text;
}

TEST(PublishedTimes, ThePageHasTheTable) {
  const std::string path = std::string(LSSAR_SOURCE_FOLDER) + "/docs/performance.md";
  const std::string begin = "<!-- published_test: begin -->\n",
                    end = "<!-- published_test: end -->";
  const auto page = read_file(path);
  ASSERT_TRUE(page.ok()) << page.status().message();
  const size_t from = page->find(begin), to = page->find(end);
  ASSERT_NE(from, std::string::npos);
  ASSERT_NE(to, std::string::npos);
  const std::string made = page->substr(0, from) + begin + "\n" + table() + "\n" + page->substr(to);
  if (std::getenv("LSSAR_UPDATE_DOCS") != nullptr) {
    ASSERT_TRUE(write_file_atomically(path, made).ok());
    return;
  }
  EXPECT_EQ(*page, made) << "LSSAR_UPDATE_DOCS=1 makes it anew";
}

}  // namespace
}  // namespace lssar
