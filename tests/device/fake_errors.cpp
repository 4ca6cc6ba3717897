#include "tests/device/fake_errors.h"

#include "tests/device/fake_driver.h"

namespace lssar::test {
namespace {

struct ErrorText {
  CuResult result;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
    {kCuInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kCuOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kCuNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {kCuInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kCuInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kCuNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kCuIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

CuResult error_text(CuResult result, const char* ErrorText::*field, const char** text) {
  for (const ErrorText& error : kErrors) {
    if (error.result != result) continue;
    *text = error.*field;
    return kCuSuccess;
  }
  *text = nullptr;
  return kCuInvalidValue;
}

}  // namespace

CuResult fake_error_name(CuResult result, const char** name) {
  return error_text(result, &ErrorText::name, name);
}

CuResult fake_error_text(CuResult result, const char** text) {
  return error_text(result, &ErrorText::text, text);
}

}  // namespace lssar::test
