// LSSAR_DUMP_DIR: writes the input and output of every compile to files.
//
// Used by the engine. Threads: any. Files are replaced as a whole.
#pragma once

#include <string>

#include "base/status.h"
#include "compile/compiler.h"

namespace lssar {

// Without LSSAR_DUMP_DIR it does nothing. With it, it writes to that folder (made if missing):
// NAME.KEY.cu, NAME.KEY.ptx, NAME.KEY.cubin if the image is a cubin, and NAME.KEY.log with the
// compiler, its options and its messages. After a failed compile it writes only the first and the
// last. It never fails: what cannot be written is a warning in the log. PTX beside a cubin costs a
// second compile.
void dump_compile(const Compiler& compiler, const CompileRequest& request, const std::string& key,
                  const Result<Image>& result);

}  // namespace lssar
