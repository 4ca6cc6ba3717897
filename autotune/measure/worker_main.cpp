// lssar-tune-worker PARENT: compiles, checks and runs candidates for the tuner. The tuner starts it
// and talks to it over standard input and output. It is not for users.
#include <cstdlib>

#include "autotune/measure/worker_server.h"

int main(int argc, char** argv) {
  const long parent = argc == 2 ? std::strtol(argv[1], nullptr, 10) : 0;
  if (parent <= 0) return 2;
  return lssar::serve_worker(parent);
}
