// The worker's side of worker_protocol.h: answers requests until its input ends.
//
// Threads: serve_worker is called once, by main(); it has a thread of its own that reads, so that
// the process ends with its parent whatever a candidate is doing.
#pragma once

namespace lssar {

// `parent`: the process that started this one; when it is gone, so is this one. Takes over standard
// input and output: what else writes to standard output goes to standard error. Returns the exit
// code of the process.
int serve_worker(long parent);

}  // namespace lssar
