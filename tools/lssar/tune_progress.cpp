#include "tools/lssar/tune_progress.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

namespace lssar::command {
namespace {

constexpr int kBarWidth = 24;

}  // namespace

std::string progress_line(const SearchProgress& progress) {
  const int total = std::max(progress.total, 1);
  const int filled = kBarWidth * std::clamp(progress.done, 0, total) / total;
  std::string line = fmt::format("[{}{}] {} {} of {}", std::string(size_t(filled), '='),
                                 std::string(size_t(kBarWidth - filled), ' '),
                                 stage_name(progress.stage), progress.done, progress.total);
  if (progress.best_ms > 0) line += fmt::format(", best {:.4g} ms", progress.best_ms);
  line += progress.limit_s > 0
              ? fmt::format(", {:.0f} s, at most {:.0f} s left", progress.elapsed_s,
                            std::max(0.0, progress.limit_s - progress.elapsed_s))
              : fmt::format(", {:.0f} s", progress.elapsed_s);
  return line;
}

void TuneProgress::begin(const std::string& title) {
  title_ = title;
  has_stage_ = false;
  if (!quiet_) fmt::print(stderr, "{}\n", title);
}

void TuneProgress::show(const SearchProgress& progress) {
  if (quiet_) return;
  if (is_terminal_) {
    // Erases the rest of a longer line before it.
    fmt::print(stderr, "\r{}\x1b[K", progress_line(progress));
    std::fflush(stderr);
    has_line_ = true;
  } else if (!has_stage_ || progress.stage != stage_) {
    fmt::print(stderr, "{}\n", progress_line(progress));
  }
  stage_ = progress.stage;
  has_stage_ = true;
}

void TuneProgress::end() {
  if (has_line_) fmt::print(stderr, "\n");
  has_line_ = false;
}

}  // namespace lssar::command
