#include "base/status.h"

namespace lssar {

const char* status_code_name(StatusCode code) {
  switch (code) {
    case StatusCode::kOk: return "ok";
    case StatusCode::kInvalidArgument: return "invalid argument";
    case StatusCode::kUnsupported: return "unsupported";
    case StatusCode::kMissing: return "missing";
    case StatusCode::kCompileError: return "compile error";
    case StatusCode::kDeviceError: return "device error";
    case StatusCode::kIoError: return "I/O error";
    case StatusCode::kNotPrepared: return "not prepared";
    case StatusCode::kOutOfMemory: return "out of memory";
    case StatusCode::kInternal: return "internal error";
  }
  return "unknown status";
}

std::string Status::to_string() const {
  return ok() ? "ok" : std::string(status_code_name(code_)) + ": " + message_;
}

Status Status::with_context(const std::string& context) const {
  return ok() ? *this : Status(code_, context + ": " + message_);
}

}  // namespace lssar
