// The subcommands, one file each. Every add_ function defines one on `app`, and sets `*action` to
// its work if the user chose it.
//
// Threads: the command is single-threaded; what it calls may not be.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace lssar::command {

// The exit code, or the failure that decides it.
using Action = std::function<Result<int>()>;

void add_emit(CLI::App& app, Action* action);        // print the generated source
void add_prepare(CLI::App& app, Action* action);     // compile into the cache
void add_run(CLI::App& app, Action* action);         // .npy files in, .npy files out
void add_verify(CLI::App& app, Action* action);      // random inputs against the reference
void add_capture(CLI::App& app, Action* action);     // one call as a file
void add_replay(CLI::App& app, Action* action);      // repeat a captured call
void add_sim(CLI::App& app, Action* action);         // any PTX on the virtual device
void add_tune(CLI::App& app, Action* action);        // search for the best schedule
void add_table(CLI::App& app, Action* action);       // what was tuned
void add_explain(CLI::App& app, Action* action);     // why a schedule was chosen
void add_report(CLI::App& app, Action* action);      // the same as a page to look at
void add_inspect(CLI::App& app, Action* action);     // a kernel's code
void add_cache(CLI::App& app, Action* action);       // list, check, clean, export, import kernels
void add_doctor(CLI::App& app, Action* action);      // what is on this machine
void add_help(CLI::App& app, Action* action);        // help of a subcommand, manual page
void add_completion(CLI::App& app, Action* action);  // for a shell

}  // namespace lssar::command
