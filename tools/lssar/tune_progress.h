// What `lssar tune` shows while it searches: a bar that is redrawn on a terminal, a line per stage
// elsewhere. On standard error.
//
// Threads: one.
#pragma once

#include <string>

#include "autotune/search.h"

namespace lssar::command {

class TuneProgress {
 public:
  // `quiet`: shows nothing.
  TuneProgress(bool is_terminal, bool quiet) : is_terminal_(is_terminal), quiet_(quiet) {}

  // The problem whose progress follows.
  void begin(const std::string& title);
  void show(const SearchProgress& progress);
  // Ends a bar's line.
  void end();

 private:
  const bool is_terminal_;
  const bool quiet_;
  std::string title_;
  bool has_line_ = false;
  bool has_stage_ = false;
  Stage stage_ = Stage::kEnumerate;
};

// "[=====>    ] blocks 12 of 28 left 16, best 0.412 ms, 14 of 120 s".
std::string progress_line(const SearchProgress& progress);

}  // namespace lssar::command
