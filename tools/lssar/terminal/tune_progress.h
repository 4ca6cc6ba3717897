// The progress of `lssar tune`, on standard error: on a terminal a bar, which is redrawn even if
// nothing new is known; elsewhere a line per stage.
//
// Threads: one; a bar has a thread of its own that redraws it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "autotune/search/search.h"

namespace lssar::command {

class TuneProgress {
 public:
  // `quiet`: shows nothing.
  TuneProgress(bool is_terminal, bool quiet);
  ~TuneProgress();
  TuneProgress(const TuneProgress&) = delete;
  TuneProgress& operator=(const TuneProgress&) = delete;

  // Begins the progress of a problem.
  void begin(const std::string& title);
  void show(const SearchProgress& progress);
  // Ends a bar's line.
  void end();

 private:
  void redraw_until_stopped();
  void draw();  // REQUIRES: mutex_ is held

  const bool is_terminal_;
  const bool quiet_;
  std::mutex mutex_;  // guards the following members
  std::condition_variable stop_;
  bool is_stopped_ = false;
  std::optional<SearchProgress> shown_;  // of a bar
  std::chrono::steady_clock::time_point shown_at_;
  bool has_stage_ = false;
  Stage stage_ = Stage::kEnumerate;
  std::thread redrawing_;  // comes last, because it uses the others
};

// "[=====>    ] blocks 12 of 28 left 16, best 0.412 ms, 14 of 120 s".
std::string progress_line(const SearchProgress& progress);

}  // namespace lssar::command
