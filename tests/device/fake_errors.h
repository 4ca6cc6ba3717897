// Names and texts of errors, as the fake driver tells them. Threads: constants.
#pragma once

#include "device/driver_api.h"

namespace lssar::test {

// kCuInvalidValue, and null, for a number that is no error it knows.
CuResult fake_error_name(CuResult result, const char** name);
CuResult fake_error_text(CuResult result, const char** text);

}  // namespace lssar::test
