#include "tools/lssar/terminal/tune_progress.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "tools/lssar/terminal/standard_streams.h"
#include "tools/lssar/terminal/terminal.h"

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

TuneProgress::TuneProgress(bool is_terminal, bool quiet)
    : is_terminal_(is_terminal), quiet_(quiet) {
  if (is_terminal_ && !quiet_) redrawing_ = std::thread([this] { redraw_until_stopped(); });
}

TuneProgress::~TuneProgress() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  stop_.notify_all();
  if (redrawing_.joinable()) redrawing_.join();
}

void TuneProgress::redraw_until_stopped() {
  constexpr std::chrono::seconds kInterval(1);
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, kInterval, [this] { return is_stopped_; })) draw();
}

void TuneProgress::begin(const std::string& title) {
  const std::lock_guard lock(mutex_);
  has_stage_ = false;
  if (!quiet_) print_message(stderr, title);
}

// A candidate may take long, so the seconds continue meanwhile.
void TuneProgress::draw() {
  if (!shown_) return;
  SearchProgress now = *shown_;
  now.elapsed_s +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - shown_at_).count();
  std::string line = progress_line(now);
  // A line that continues in the next row cannot be redrawn.
  if (const size_t columns = terminal_columns(stderr); columns > 0 && line.size() >= columns)
    line.resize(columns - 1);
  tell("\r{}\x1b[K", line);  // erases the rest of a longer line before it
  std::fflush(stderr);
}

void TuneProgress::show(const SearchProgress& progress) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  if (is_terminal_) {
    shown_ = progress;
    shown_at_ = std::chrono::steady_clock::now();
    draw();
  } else if (!has_stage_ || progress.stage != stage_) {
    tell("{}\n", progress_line(progress));
  }
  stage_ = progress.stage;
  has_stage_ = true;
}

void TuneProgress::end() {
  const std::lock_guard lock(mutex_);
  if (shown_) tell("\n");
  shown_.reset();
}

}  // namespace lssar::command
