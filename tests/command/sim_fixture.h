// Kernels and verbs that the tests of `lssar sim` share. Threads: one CommandRunner per test.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/npy.h"
#include "tests/command/command_runner.h"

namespace lssar {

inline std::string sim_kernel(const std::string& parameters, const std::string& body,
                              const std::string& target = "sm_80") {
  return ".version 8.0\n.target " + target + "\n.address_size 64\n.visible .entry k(" + parameters +
         ")\n{\n.reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .f32 %f<8>; "
         ".reg .b64 %l<16>;\n" +
         body + "\nret;\n}\n";
}

// Thread i of each block copies byte i of the block's `blockDim` ones, up to n.
inline std::string copy_bytes_kernel() {
  return sim_kernel(".param .u64 from, .param .u64 to, .param .u32 n",
                    "ld.param.u64 %l0, [from]; ld.param.u64 %l1, [to]; ld.param.u32 %r0, [n];\n"
                    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;\n"
                    "mad.lo.s32 %r4, %r1, %r2, %r3;\n"
                    "setp.ge.u32 %p0, %r4, %r0;\n@%p0 ret;\n"
                    "cvt.u64.u32 %l2, %r4; add.s64 %l3, %l0, %l2; add.s64 %l4, %l1, %l2;\n"
                    "ld.global.u8 %h0, [%l3];\nst.global.u8 [%l4], %h0;");
}

class SimTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return command_.path(name); }

  void write(const std::string& name, const std::vector<int64_t>& shape,
             const std::vector<float>& values) const {
    ASSERT_TRUE(write_npy_float32(file(name), shape, values).ok());
  }

  NpyArray<float> read(const std::string& name) const {
    const Result<NpyArray<float>> array = read_npy_float32(file(name));
    EXPECT_TRUE(array.ok()) << array.status().to_string();
    return array.ok() ? *array : NpyArray<float>{};
  }

  // lssar sim kernel.ptx --entry k --block 32 `more`; `options` win over the block.
  CommandResult sim(const std::string& ptx, const std::vector<std::string>& arguments,
                    const std::vector<std::string>& options = {"--block", "32"}) const {
    std::vector<std::string> line = {"sim", command_.write("kernel.ptx", ptx), "--entry", "k"};
    line.insert(line.end(), options.begin(), options.end());
    for (const std::string& argument : arguments) {
      line.push_back("--arg");
      line.push_back(argument);
    }
    return command_.run(line);
  }

  // The bytes that an argument's values become, by a kernel that copies them.
  std::vector<float> bytes_of(const std::vector<float>& values, const std::string& type,
                              size_t type_bytes) const {
    write("in.npy", {static_cast<int64_t>(values.size())}, values);
    const std::string count = std::to_string(values.size() * type_bytes);
    const CommandResult result =
        sim(copy_bytes_kernel(), {"in:" + file("in.npy") + ":" + type,
                                  "out:" + file("bytes.npy") + ":u8:" + count, "u32:" + count});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return read("bytes.npy").values;
  }

  // The values of a type that bytes stand for.
  std::vector<float> values_of(const std::vector<float>& bytes, const std::string& type,
                               size_t type_bytes) const {
    write("bytes.npy", {static_cast<int64_t>(bytes.size())}, bytes);
    const std::string count = std::to_string(bytes.size() / type_bytes);
    const CommandResult result =
        sim(copy_bytes_kernel(), {"in:" + file("bytes.npy") + ":u8",
                                  "out:" + file("values.npy") + ":" + type + ":" + count,
                                  "u32:" + std::to_string(bytes.size())});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
    return read("values.npy").values;
  }

  CommandRunner command_;
};

}  // namespace lssar
