// Shows the progress of long work on standard error: on a terminal a line that is redrawn,
// elsewhere one line with an estimate. Work of a second or two shows nothing.
//
// Threads: a thread of its own shows it.
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
  // Another thread calls `now` until this object is destroyed. `quiet`: shows nothing.
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
