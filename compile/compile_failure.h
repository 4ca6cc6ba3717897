// Builds the message of a compile error, with everything needed to investigate it. Used by both
// compilers.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "compile/compiler.h"

namespace lssar {

// Writes the source to LSSAR_DUMP_DIR (made if it is missing), else to the system's temporary
// directory, as a new file that only this user can read. Returns its path.
Result<std::string> dump_source(const CompileRequest& request);

// kCompileError with the kernel's name, target, compiler, options, the path of the dumped source
// (or why it could not be written) and the whole log.
Status compile_failure(const Compiler& compiler, const CompileRequest& request,
                       const std::string& log);

// "-a -b 'c d'": quoted as for a shell.
std::string join_options(const std::vector<std::string>& options);

}  // namespace lssar
