#include "tools/lssar/terminal/work_progress.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "tools/lssar/terminal/standard_streams.h"

namespace lssar::command {
namespace {

constexpr std::chrono::milliseconds kRedraw(200);
constexpr double kSilentS = 2;  // shorter work shows nothing
constexpr double kLongS = 10;   // longer work is worth a line even if nothing is redrawn

double seconds_left(const WorkProgress::Now& now, double elapsed_s) {
  return now.done > 0 ? elapsed_s * (now.total - now.done) / now.done : 0;
}

}  // namespace

std::string progress_text(const std::string& title, const WorkProgress::Now& now,
                          double elapsed_s) {
  std::string text = title;
  if (now.total > 0) text += fmt::format(": {:.0f} %", 100 * std::min(now.done / now.total, 1.0));
  text += fmt::format(", {:.0f} s", elapsed_s);
  if (now.done > 0) text += fmt::format(", about {:.0f} s left", seconds_left(now, elapsed_s));
  return text;
}

WorkProgress::WorkProgress(std::string title, bool quiet, std::function<Now()> now)
    : title_(std::move(title)), now_(std::move(now)), is_terminal_(isatty(STDERR_FILENO) != 0) {
  if (!quiet) thread_ = std::thread([this] { show_until_over(); });
}

WorkProgress::~WorkProgress() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  thread_.join();
  if (has_line_) tell("\r\x1b[K");
}

void WorkProgress::show_until_over() {
  const auto start = std::chrono::steady_clock::now();
  bool has_told = false;
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, kRedraw, [this] { return is_over_; })) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (elapsed.count() < kSilentS) continue;
    const Now now = now_();
    if (is_terminal_) {
      tell("\r{}\x1b[K", progress_text(title_, now, elapsed.count()));
      has_line_ = true;
    } else if (!has_told && seconds_left(now, elapsed.count()) > kLongS) {
      tell("{}\n", progress_text(title_, now, elapsed.count()));
      has_told = true;
    }
  }
}

}  // namespace lssar::command
