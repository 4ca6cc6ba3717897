// What a caller can get wrong before there is a plan: contexts, buffers, logging.
#include "tests/errors/capi_errors.h"

namespace lssar {
namespace {

lssar_context_options options_of(int32_t device) {
  lssar_context_options options = {};
  options.struct_size = sizeof(options);
  options.device = device;
  options.cache_directory = "none";
  return options;
}

class ContextErrors : public testing::Test {
 protected:
  lssar_status create(const lssar_context_options& options) {
    return lssar_context_create(&options, &context_);
  }
  ~ContextErrors() override { lssar_context_destroy(context_); }

  // Not null, to see that a failure makes it null.
  lssar_context* context_ = reinterpret_cast<lssar_context*>(this);
};

TEST_F(ContextErrors, NullOutput) {
  context_ = nullptr;
  const auto options = options_of(LSSAR_DEVICE_RECORD);
  EXPECT_FAILS(lssar_context_create(&options, nullptr), INVALID_ARGUMENT, "context = NULL");
}

TEST_F(ContextErrors, StructSizeNotSet) {
  auto options = options_of(LSSAR_DEVICE_RECORD);
  options.struct_size = 0;
  EXPECT_FAILS(create(options), INVALID_ARGUMENT,
               "context_options.struct_size = 0: must be sizeof(lssar_context_options)");
  EXPECT_EQ(context_, nullptr);
}

TEST_F(ContextErrors, UnknownDevice) {
  EXPECT_FAILS(create(options_of(17)), INVALID_ARGUMENT,
               "device = 17: allowed are 0 (auto), 1 (cuda), 2 (virtual), 3 (record), 4 (cpu)");
  EXPECT_EQ(context_, nullptr);
}

TEST_F(ContextErrors, UnknownCompiler) {
  auto options = options_of(LSSAR_DEVICE_RECORD);
  options.compiler = -1;
  EXPECT_FAILS(create(options), INVALID_ARGUMENT,
               "compiler = -1: allowed are 0 (auto), 1 (nvrtc), 2 (llvm)");
  EXPECT_EQ(context_, nullptr);
}

TEST_F(ContextErrors, NegativeOrdinal) {
  auto options = options_of(LSSAR_DEVICE_RECORD);
  options.device_ordinal = -2;
  EXPECT_FAILS(create(options), INVALID_ARGUMENT, "device_ordinal = -2: allowed are 0 and more");
  EXPECT_EQ(context_, nullptr);
}

TEST_F(ContextErrors, ReservedFieldSet) {
  auto options = options_of(LSSAR_DEVICE_RECORD);
  options.reserved = 1;
  EXPECT_FAILS(create(options), INVALID_ARGUMENT, "context_options.reserved = 1: allowed are 0");
  EXPECT_EQ(context_, nullptr);
}

TEST_F(ContextErrors, UnknownTarget) {
  auto options = options_of(LSSAR_DEVICE_VIRTUAL);
  options.target = "sm_7";
  EXPECT_FAILS(create(options), INVALID_ARGUMENT, "sm_7");
  EXPECT_THAT(lssar_last_error_detail(), testing::HasSubstr("sm_80"));
  EXPECT_EQ(context_, nullptr);
}

TEST_F(ContextErrors, FieldOfANewerVersionIsSet) {
  struct {
    lssar_context_options known;
    int64_t newer;
  } options = {options_of(LSSAR_DEVICE_RECORD), 1};
  options.known.struct_size = sizeof(options);
  EXPECT_FAILS(create(options.known), UNSUPPORTED, "a field beyond the");
  EXPECT_EQ(context_, nullptr);
}

TEST_F(ContextErrors, LongerStructWhoseNewFieldsAreZeroIsNoError) {
  struct {
    lssar_context_options known;
    int64_t newer;
  } options = {options_of(LSSAR_DEVICE_RECORD), 0};
  options.known.struct_size = sizeof(options);
  EXPECT_EQ(create(options.known), LSSAR_STATUS_OK) << lssar_last_error_detail();
}

TEST_F(ContextErrors, UnusableCacheDirectoryIsNoErrorAndIsExplained) {
  auto options = options_of(LSSAR_DEVICE_RECORD);
  options.cache_directory = "/proc/no-such-place";
  ASSERT_EQ(create(options), LSSAR_STATUS_OK) << lssar_last_error_detail();
  lssar_context_info info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(lssar_context_get_info(context_, &info), LSSAR_STATUS_OK);
  EXPECT_STREQ(info.cache_directory, "");
  EXPECT_THAT(info.cache_problem, testing::HasSubstr("/proc/no-such-place"));
}

TEST_F(ContextErrors, InfoArguments) {
  ASSERT_EQ(create(options_of(LSSAR_DEVICE_RECORD)), LSSAR_STATUS_OK);
  lssar_context_info info = {};
  EXPECT_FAILS(lssar_context_get_info(nullptr, &info), INVALID_ARGUMENT, "context = NULL");
  EXPECT_FAILS(lssar_context_get_info(context_, nullptr), INVALID_ARGUMENT, "info = NULL");
  EXPECT_FAILS(lssar_context_get_info(context_, &info), INVALID_ARGUMENT, "info.struct_size = 0");
}

TEST_F(ContextErrors, BufferArguments) {
  ASSERT_EQ(create(options_of(LSSAR_DEVICE_VIRTUAL)), LSSAR_STATUS_OK);
  void* buffer = &buffer;
  char host[4] = {};
  EXPECT_FAILS(lssar_buffer_alloc(nullptr, 4, &buffer), INVALID_ARGUMENT, "context = NULL");
  EXPECT_EQ(buffer, nullptr);
  EXPECT_FAILS(lssar_buffer_alloc(context_, 4, nullptr), INVALID_ARGUMENT, "buffer = NULL");
  EXPECT_FAILS(lssar_buffer_write(context_, nullptr, host, 4), INVALID_ARGUMENT, "buffer = NULL");
  EXPECT_FAILS(lssar_buffer_read(context_, nullptr, host, 4), INVALID_ARGUMENT, "host = NULL");
  EXPECT_FAILS(lssar_buffer_free(nullptr, host), INVALID_ARGUMENT, "context = NULL");
  EXPECT_FAILS(lssar_synchronize(nullptr, nullptr), INVALID_ARGUMENT, "context = NULL");
  EXPECT_EQ(lssar_buffer_free(context_, nullptr), LSSAR_STATUS_OK);
  EXPECT_EQ(lssar_buffer_write(context_, nullptr, nullptr, 0), LSSAR_STATUS_OK);
}

TEST_F(ContextErrors, BufferTooLargeForTheMachine) {
  ASSERT_EQ(create(options_of(LSSAR_DEVICE_VIRTUAL)), LSSAR_STATUS_OK);
  void* buffer = &buffer;
  EXPECT_EQ(lssar_buffer_alloc(context_, SIZE_MAX / 2, &buffer), LSSAR_STATUS_OUT_OF_MEMORY);
  EXPECT_EQ(buffer, nullptr);
  EXPECT_STRNE(lssar_last_error_detail(), "");
}

TEST(LogErrors, UnknownLevel) {
  EXPECT_FAILS(lssar_set_log_callback(nullptr, nullptr, 5), INVALID_ARGUMENT,
               "level = 5: allowed are 0 (error) to 4 (trace)");
}

TEST(StatusTexts, EveryCodeHasOneAndOthersAreUnknown) {
  EXPECT_STREQ(lssar_status_string(LSSAR_STATUS_OK), "ok");
  EXPECT_STREQ(lssar_status_string(LSSAR_STATUS_NOT_PREPARED), "not prepared");
  EXPECT_STREQ(lssar_status_string(LSSAR_STATUS_INTERNAL), "internal error");
  EXPECT_STREQ(lssar_status_string(LSSAR_STATUS_CANCELLED), "cancelled");
  EXPECT_STREQ(lssar_status_string(static_cast<lssar_status>(11)), "unknown status");
}

}  // namespace
}  // namespace lssar
