// LSSAR_DUMP_DIR: what every compile read and made, for people to look at.
//
// Used by the engine. Threads: any; files are replaced as a whole.
#pragma once

#include <string>

#include "base/status.h"
#include "compile/compiler.h"

namespace lssar {

// Without LSSAR_DUMP_DIR nothing. With it, in that folder, which is made if need be: NAME.KEY.cu,
// NAME.KEY.ptx, NAME.KEY.cubin where the image is one, and NAME.KEY.log: compiler, options and all
// it said. After a failed compile only the first and the last. Never fails: what cannot be written
// is a warning in the log. PTX beside a cubin costs a second compile.
void dump_compile(const Compiler& compiler, const CompileRequest& request, const std::string& key,
                  const Result<Image>& result);

}  // namespace lssar
