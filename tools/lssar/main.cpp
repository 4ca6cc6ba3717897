// The `lssar` command: chooses the subcommand, and turns its failure into one line and a code.
#include <cstdio>
#include <exception>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/log.h"
#include "tools/lssar/commands/subcommands.h"
#include "tools/lssar/options/usage_error.h"
#include "tools/lssar/terminal/exit_code.h"
#include "tools/lssar/terminal/help_text.h"
#include "tools/lssar/terminal/interrupt.h"
#include "tools/lssar/terminal/standard_streams.h"
#include "tools/lssar/terminal/terminal.h"

namespace {

using lssar::command::Action;

// CLI11 throws for "print help" as well as for errors. Its exit codes are not ours.
int parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return -1;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      std::ostringstream help, no_error;
      app.exit(error, help, no_error);
      fmt::print("{}", help.str());
      return lssar::command::kDone;
    }
    lssar::command::print_message(stderr, "lssar: " + lssar::command::usage_error(app, error));
    return lssar::command::kBadInput;
  }
}

int run_command(int argc, char** argv) {
  // A user reads what a command prints, so warnings are shown, unlike in a library.
  lssar::set_default_log_level(lssar::LogLevel::kWarning);
  CLI::App app("Generates, compiles, runs and checks CUDA kernels for LSSAR attention.", "lssar");
  lssar::command::use_help_text(app);
  app.footer("\nExample:\n  lssar verify --pass backward --seq 512 --heads 4\n\n" +
             lssar::command::exit_code_help());
  app.set_version_flag("--version", LSSAR_COMMAND_VERSION);
  app.require_subcommand(0, 1);  // reports none below; an unknown one is reported by its name

  Action action;
  lssar::command::add_emit(app, &action);
  lssar::command::add_prepare(app, &action);
  lssar::command::add_run(app, &action);
  lssar::command::add_verify(app, &action);
  lssar::command::add_capture(app, &action);
  lssar::command::add_replay(app, &action);
  lssar::command::add_sim(app, &action);
  lssar::command::add_tune(app, &action);
  lssar::command::add_table(app, &action);
  lssar::command::add_explain(app, &action);
  lssar::command::add_report(app, &action);
  lssar::command::add_inspect(app, &action);
  lssar::command::add_cache(app, &action);
  lssar::command::add_doctor(app, &action);
  lssar::command::add_help(app, &action);
  lssar::command::add_completion(app, &action);

  if (const int code = parse(app, argc, argv); code >= 0) return code;
  if (!action) {
    lssar::command::print_message(
        stderr,
        "lssar: no subcommand: allowed are emit, prepare, run, verify, capture, replay, sim, "
        "tune, table, explain, report, inspect, cache, doctor, help and completion (see lssar "
        "--help)");
    return lssar::command::kBadInput;
  }
  try {
    const lssar::Result<int> result = action();
    return result.ok() ? *result : lssar::command::report_failure(result.status());
  } catch (const std::bad_alloc&) {
    return lssar::command::report_failure(lssar::out_of_memory("host memory is used up"));
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) throw;  // main() says what was lost
    return lssar::command::report_failure(lssar::internal_error(error.what()));
  } catch (const std::exception& error) {
    return lssar::command::report_failure(lssar::internal_error(error.what()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  lssar::command::prepare_standard_streams();
  lssar::command::watch_interrupts();
  int code = lssar::command::kDone, print_error = 0;
  try {
    code = run_command(argc, argv);
  } catch (const std::system_error& error) {
    print_error = error.code().value();
  }
  const lssar::Status printed = lssar::command::finish_standard_output(print_error);
  if (!printed.ok()) {
    const int lost = lssar::command::report_failure(printed);
    if (code == lssar::command::kDone) code = lost;  // a worse code stays
  }
  lssar::command::end_if_interrupted();
  return code;
}
