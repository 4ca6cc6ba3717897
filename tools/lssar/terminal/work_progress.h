// How far long work is, on standard error: a line that is redrawn on a terminal, one line with an
// estimate elsewhere. Work of a second or two says nothing.
//
// Threads: shows from one of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lssar::command {

class WorkProgress {
 public:
  struct Now {
    double done = 0, total = 0;
  };
  // `now` is asked from another thread until this one is destroyed. `quiet`: shows nothing.
  WorkProgress(std::string title, bool quiet, std::function<Now()> now);
  ~WorkProgress();
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

 private:
  void show_until_over();

  const std::string title_;
  const std::function<Now()> now_;
  const bool is_terminal_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;  // guarded by mutex_
  bool has_line_ = false;
  std::thread thread_;
};

// "the float64 reference: 12 %, 9 s, about 66 s left".
std::string progress_text(const std::string& title, const WorkProgress::Now& now, double elapsed_s);

}  // namespace lssar::command
