// The worker's side of worker_protocol.h: answers requests until its input ends.
//
// Threads: main() calls serve_worker once. It has a thread of its own that reads, so that the
// process ends with its parent whatever a candidate does.
#pragma once

namespace lssar {

// `parent` is the process that started this one; this one ends when the parent does. Takes over
// standard input and output: anything else written to standard output goes to standard error.
// Returns the exit code of the process.
int serve_worker(long parent);

}  // namespace lssar
