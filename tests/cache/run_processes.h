// Several processes that start together, as the ranks of a job do.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <vector>

namespace lssar {

// Runs `body` in `count` children; what it returns is the child's exit status. The children wait
// for each other, so that all of them are there before the first begins. Expects 0 of each.
inline void run_processes(int count, const std::function<int()>& body) {
  int gate[2];
  ASSERT_EQ(::pipe(gate), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(gate[1]);
      char ignored = 0;
      // Returns 0 when the parent closes its end.
      ::_exit(::read(gate[0], &ignored, 1) == 0 ? body() : 100);
    }
    children.push_back(child);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

}  // namespace lssar
