// Rows that no result depends on: hints, fences, cache policies, sizes of register files. They
// load, run in every mode of execution and leave memory and registers alone.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/virtual/async/bulk_fixture.h"
#include "tests/virtual/conformance/conformance_forms.h"
#include "tests/virtual/ptx_fixture.h"

namespace lssar::test {
namespace {

TEST(ConformanceHintTest, HintsAndFencesLeaveEverythingAlone) {
  std::vector<Form> forms;
  for (const char* hint : {"prefetch.global.L1 [%gs];",
                           "prefetch.global.L2 [%gs];",
                           "prefetch.L1 [%gs];",
                           "prefetch.global.L2::evict_last [%gs];",
                           "prefetch.global.L2::evict_normal [%gs];",
                           "prefetchu.L1 [%gs];",
                           "membar.cta;",
                           "membar.gl;",
                           "membar.sys;",
                           "fence.sc.cta;",
                           "fence.acq_rel.gpu;",
                           "fence.acq_rel.cluster;",
                           "fence.acquire.cluster;",
                           "fence.release.sys;",
                           "fence.gpu;",
                           "fence.proxy.alias;",
                           "fence.proxy.async;",
                           "fence.proxy.async.global;",
                           "fence.proxy.async.shared::cta;",
                           "fence.mbarrier_init.release.cluster;",
                           "nanosleep.u32 20;",
                           "griddepcontrol.wait;",
                           "griddepcontrol.launch_dependents;",
                           "prefetch.tensormap [%gs];",
                           "fence.proxy.tensormap::generic.release.gpu;",
                           "cp.async.bulk.prefetch.L2.global [%gs], 16;",
                           "createpolicy.fractional.L2::evict_first.b64 %xl1, 1.0;",
                           "createpolicy.range.global.L2::evict_last.b64 %xl1, [%gs], 64, 128;",
                           "createpolicy.cvt.L2.b64 %xl1, 0x10f0;"}) {
    forms.push_back({fmt::format("st.global.b64 [%gs], $1; {} ld.global.b64 $0, [%gs];", hint),
                     "ll", Number::kBits, Number::kBits, [](const uint64_t* in) { return in[0]; },
                     true});
  }
  check_forms(forms);
}

TEST(ConformanceHintTest, PrefetchesAndFencesOfTensorMaps) {
  BulkDevice device(kBulkModes[0]);
  const Buffer<uint32_t> out(*device.device, std::vector<uint32_t>(64));
  TensorMapRequest map;
  map.type = TensorDataType::kFloat32;
  map.rank = 1;
  const Buffer<uint8_t> memory(*device.device, std::vector<uint8_t>(1024));
  map.global_address = (memory.address() + 127) / 128 * 128;
  map.global_dims[0] = 64;
  map.box_dims[0] = 16;
  const Status status =
      device.run(store_kernel("fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;\n"
                              "prefetch.tensormap [%rd1];\n"
                              "cp.async.bulk.prefetch.tensor.1d.L2.global [%rd1, {%r4}];\n"
                              "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 256;",
                              256),
                 map, {0}, {out.address(), 0});
  ASSERT_TRUE(status.ok()) << status.to_string();
  for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], tile_word(i)) << i;
}

// A warp group that gives registers away and takes some back goes on with its values.
TEST(ConformanceHintTest, RegistersGivenAwayAndTakenBack) {
  for (const SimdLevel level : levels()) {
    VirtualOptions options;
    options.target = *target_from_name("sm_90a");
    options.simd = level;
    options.num_threads = 1;
    options.max_block_instructions = 100'000;
    const auto device = make_virtual_device(options);
    const Buffer<uint32_t> out(*device, std::vector<uint32_t>(128));
    const Status status =
        run(*device,
            ".version 8.0\n.target sm_90a\n.address_size 64\n"
            ".visible .entry k(.param .u64 p0) .maxntid 128, 1, 1 .maxnreg 128 {\n"
            ".reg .b64 %p, %o; .reg .b32 %t, %d; ld.param.u64 %p, [p0]; mov.u32 %t, %tid.x;\n"
            "mul.wide.u32 %o, %t, 4; add.s64 %p, %p, %o; mul.lo.u32 %d, %t, 3;\n"
            "setmaxnreg.dec.sync.aligned.u32 24; add.u32 %d, %d, 1;\n"
            "setmaxnreg.inc.sync.aligned.u32 120; st.global.u32 [%p], %d; ret; }\n",
            {1, 128}, {out.address()});
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (uint32_t t = 0; t < 128; ++t) ASSERT_EQ(out[t], 3 * t + 1);
  }
}

}  // namespace
}  // namespace lssar::test
