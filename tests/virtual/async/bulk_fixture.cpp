#include "tests/virtual/async/bulk_fixture.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

namespace lssar::test {
namespace {

// The parameters as the host passes them.
struct Params {
  TensorMap map;
  BulkPointers pointers;
  int32_t coordinates[5];
};

std::string begin_kernel(uint32_t tile_bytes) {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n"
         ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 extra,\n"
         ".param .u32 c0, .param .u32 c1, .param .u32 c2, .param .u32 c3, .param .u32 c4)\n{\n"
         ".reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n.reg .pred %p<9>;\n"
         ".shared .align 1024 .b8 tile[" +
         std::to_string(tile_bytes) +
         "];\n"
         ".shared .align 8 .b64 bar;\n"
         "mov.u32 %r1, %tid.x;\nmov.u32 %r2, tile;\nmov.u32 %r3, bar;\n"
         "mov.u32 %r20, %cluster_ctarank;\n"
         "ld.param.u32 %r4, [c0];\nld.param.u32 %r5, [c1];\nld.param.u32 %r6, [c2];\n"
         "ld.param.u32 %r7, [c3];\nld.param.u32 %r8, [c4];\n"
         "mov.b64 %rd1, map;\ncvta.param.u64 %rd1, %rd1;\n"
         "ld.param.u64 %rd2, [out];\nld.param.u64 %rd3, [extra];\n"
         "setp.ne.s32 %p1, %r1, 0;\n"
         "@%p1 bra INITIALISED;\n"
         "mbarrier.init.shared::cta.b64 [%r3], 1;\n"
         "fence.mbarrier_init.release.cluster;\n"
         "fence.proxy.async.shared::cta;\n"
         "INITIALISED:\nbar.sync 0;\n";
}

std::string fill_tile(uint32_t tile_bytes) {
  return "shl.b32 %r9, %r1, 2;\n"
         "FILL:\n"
         "mul.lo.u32 %r10, %r9, 2654435;\nadd.u32 %r10, %r10, 12345;\n"
         "add.u32 %r11, %r2, %r9;\nst.shared.u32 [%r11], %r10;\n"
         "add.u32 %r9, %r9, 128;\n"
         "setp.lt.u32 %p2, %r9, " +
         std::to_string(tile_bytes) + ";\n@%p2 bra FILL;\n";
}

std::string copy_tile_out(uint32_t tile_bytes) {
  return "shl.b32 %r9, %r1, 2;\n"
         "COPY:\n"
         "add.u32 %r11, %r2, %r9;\nld.shared.u32 %r10, [%r11];\n"
         "cvt.u64.u32 %rd4, %r9;\nadd.u64 %rd4, %rd4, %rd2;\nst.global.u32 [%rd4], %r10;\n"
         "add.u32 %r9, %r9, 128;\n"
         "setp.lt.u32 %p2, %r9, " +
         std::to_string(tile_bytes) + ";\n@%p2 bra COPY;\n";
}

}  // namespace

uint32_t tile_word(uint32_t index) { return index * 4 * 2654435u + 12345u; }
uint8_t tile_byte(uint32_t address) {
  return static_cast<uint8_t>(tile_word(address / 4) >> (8 * (address % 4)));
}

std::string coordinate_list(uint32_t rank) {
  std::string list;
  for (uint32_t i = 0; i < rank; ++i) list += (i > 0 ? ", %r" : "%r") + std::to_string(4 + i);
  return list;
}

std::string wait_for_barrier() {
  return "WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;\n@!%p2 bra WAIT;\n";
}

std::string load_kernel(const std::string& issue, uint32_t transaction_bytes, uint32_t tile_bytes) {
  // Bytes of the tile that the load leaves alone are defined too.
  return begin_kernel(tile_bytes) + fill_tile(tile_bytes) +
         "fence.proxy.async.shared::cta;\nbar.sync 0;\n@%p1 bra WAIT;\n"
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], " +
         std::to_string(transaction_bytes) + ";\n" + issue + "\n" + wait_for_barrier() +
         copy_tile_out(tile_bytes) + "ret;\n}\n";
}

std::string store_kernel(const std::string& issue, uint32_t tile_bytes) {
  return begin_kernel((tile_bytes + 127) / 128 * 128) + fill_tile((tile_bytes + 127) / 128 * 128) +
         "fence.proxy.async.shared::cta;\nbar.sync 0;\n@%p1 bra DONE;\n" + issue +
         "\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nDONE:\nret;\n}\n";
}

std::string cluster_kernel(const std::string& body) {
  return begin_kernel(256) + fill_tile(256) +
         "fence.proxy.async;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n" + body +
         "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
         "mul.wide.u32 %rd5, %r20, 256;\nadd.u64 %rd2, %rd2, %rd5;\n" +
         copy_tile_out(256) + "ret;\n}\n";
}

BulkDevice::BulkDevice(const BulkMode& mode) {
  VirtualOptions options;
  options.target.major = 9;
  options.target.suffix = "a";
  options.target.shared_bytes_per_block = 227 << 10;
  options.num_threads = 1;
  options.max_block_instructions = 100'000;
  options.strict = mode.strict;
  options.async_timing = mode.timing;
  options.schedule_seed = mode.seed;
  device = make_virtual_device(options);
}

Status BulkDevice::run(const std::string& text, const std::optional<TensorMapRequest>& map,
                       const std::vector<int32_t>& coordinates, const BulkPointers& pointers) {
  TensorMap encoded = {};
  if (map) {
    LSSAR_ASSIGN_OR_RETURN(encoded, device->encode_tensor_map(*map));
  }
  return run_map(text, encoded, coordinates, pointers);
}

Status BulkDevice::run_map(const std::string& text, const TensorMap& map,
                           const std::vector<int32_t>& coordinates, const BulkPointers& pointers,
                           uint32_t cluster) {
  Image image;
  image.kind = ImageKind::kPtx;
  image.target = "sm_90a";
  image.bytes = text;
  LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceModule> module, device->load(image));
  LSSAR_ASSIGN_OR_RETURN(const DeviceFunction* const function, module->function("k"));
  Params params = {map, pointers, {}};
  std::copy(coordinates.begin(), coordinates.begin() + std::min<size_t>(coordinates.size(), 5),
            params.coordinates);
  LaunchConfig config;
  config.grid[0] = config.cluster[0] = cluster;
  config.block[0] = 32;
  return device->launch(*function, config, &params,
                        offsetof(Params, coordinates) + sizeof(params.coordinates), nullptr);
}

}  // namespace lssar::test
