// The parsers of compilers' output: cubins, which a disk may damage, and logs of ptxas, whose words
// change a little with every release.
#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "compile/cubin_info.h"
#include "compile/ptxas_log.h"
#include "tests/compile/compiler_fixture.h"

namespace lssar {
namespace {

constexpr int kMutations = 2000;
constexpr uint8_t kRegisters = 0x2f;
constexpr uint8_t kFrameSize = 0x11;

template <typename T>
void append(std::string* bytes, const T& value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// A record of .nv.info: format 4, the attribute, 8 bytes: {symbol, value}.
std::string info_record(uint8_t attribute, uint32_t symbol, uint32_t value) {
  std::string record = {'\x04', static_cast<char>(attribute), '\x08', '\0'};
  append(&record, symbol);
  append(&record, value);
  return record;
}

// A cubin small enough to write down: one kernel, or as many sections and symbols as a test adds.
class TinyCubin {
 public:
  TinyCubin() {
    add_section("", SHT_NULL, "");
    strings_ = std::string("\0kernel\0", 8);
    symbols_.assign(sizeof(Elf64_Sym), '\0');
    add_kernel(1);
  }

  void add_kernel(uint32_t name) {
    Elf64_Sym symbol = {};
    symbol.st_name = name;
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_other = 0x10;
    append(&symbols_, symbol);
  }

  void add_section(const std::string& name, uint32_t type, const std::string& bytes,
                   uint64_t size = 0) {
    Elf64_Shdr section = {};
    section.sh_name = static_cast<uint32_t>(names_.size());
    section.sh_type = type;
    section.sh_size = size != 0 ? size : bytes.size();
    section.sh_link = type == SHT_SYMTAB ? static_cast<uint32_t>(sections_.size() + 1) : 0;
    names_ += name + '\0';
    sections_.push_back(section);
    contents_.push_back(bytes);
  }

  void add_info(const std::string& records) { info_ += records; }

  std::string bytes() {
    add_section(".symtab", SHT_SYMTAB, symbols_);
    add_section(".strtab", SHT_STRTAB, strings_);
    add_section(".nv.info", 0x70000000, info_);
    add_section(".shstrtab", SHT_STRTAB, names_ + std::string(".shstrtab\0", 10));
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_machine = 190;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(sections_.size());
    header.e_shstrndx = static_cast<uint16_t>(sections_.size() - 1);
    std::string body;
    for (size_t i = 0; i < sections_.size(); ++i) {
      sections_[i].sh_offset = sizeof(header) + body.size();
      body += contents_[i];
    }
    header.e_shoff = sizeof(header) + body.size();
    std::string file;
    append(&file, header);
    file += body;
    for (const Elf64_Shdr& section : sections_) append(&file, section);
    return file;
  }

  std::string strings_;
  std::string symbols_;

 private:
  std::string names_, info_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<std::string> contents_;
};

std::string typical_cubin() {
  TinyCubin cubin;
  cubin.add_info(info_record(kRegisters, 1, 40) + info_record(kFrameSize, 1, 16));
  cubin.add_section(".nv.shared.kernel", SHT_NOBITS, "", 2048);
  return cubin.bytes();
}

// A buffer of exactly these bytes, so that a sanitizer sees a read past the end.
void read_exactly(std::string_view bytes) {
  const std::vector<char> copy(bytes.begin(), bytes.end());
  const auto resources = read_cubin_resources({copy.data(), copy.size()});
  if (!resources.ok()) {
    EXPECT_EQ(resources.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(resources.status().message().rfind("cubin: ", 0), 0u) << resources.status().message();
  }
}

void read_truncated_and_mutated(const std::string& cubin, size_t step) {
  for (size_t length = 0; length < cubin.size(); length += step) {
    SCOPED_TRACE("length " + std::to_string(length));
    read_exactly(std::string_view(cubin).substr(0, length));
  }
  std::mt19937 random(20260101);
  for (int i = 0; i < kMutations; ++i) {
    SCOPED_TRACE("mutation " + std::to_string(i));
    std::string mutated = cubin;
    mutated[random() % mutated.size()] = static_cast<char>(random());
    read_exactly(mutated);
  }
}

TEST(CubinInfo, ReadsWhatAKernelNeeds) {
  const auto resources = read_cubin_resources(typical_cubin());
  ASSERT_TRUE(resources.ok()) << resources.status().to_string();
  ASSERT_EQ(resources->size(), 1u);
  const KernelResources& kernel = resources->front();
  EXPECT_EQ(kernel.entry, "kernel");
  EXPECT_EQ(kernel.registers, 40);
  EXPECT_EQ(kernel.local_bytes, 16);
  EXPECT_EQ(kernel.shared_bytes, 2048);
  EXPECT_EQ(kernel.spill_store_bytes, -1) << "an ELF does not tell";
}

TEST(CubinInfo, TheSystemsSharedMemoryIsNotTheKernels) {
  TinyCubin cubin;
  cubin.add_section(".nv.shared.kernel", SHT_NOBITS, "", 1024 + 512);
  cubin.add_section(".nv.shared.reserved.0", SHT_NOBITS, "", 64);
  const auto resources = read_cubin_resources(cubin.bytes());
  ASSERT_TRUE(resources.ok()) << resources.status().to_string();
  EXPECT_EQ(resources->front().shared_bytes, 512);
}

TEST(CubinInfo, RecordsOfUnknownSymbolsAndHugeValuesAreSkipped) {
  TinyCubin cubin;
  cubin.add_info(info_record(kRegisters, 99, 40) + info_record(kFrameSize, 1, 0xffffffffu));
  const auto resources = read_cubin_resources(cubin.bytes());
  ASSERT_TRUE(resources.ok()) << resources.status().to_string();
  EXPECT_EQ(resources->front().registers, -1);
  EXPECT_EQ(resources->front().local_bytes, -1);
}

TEST(CubinInfo, ARecordThatEndsBeyondItsSectionIsSkipped) {
  TinyCubin cubin;
  cubin.add_info(info_record(kRegisters, 1, 40) + std::string("\x04\x2f\xff\xff", 4));
  const auto resources = read_cubin_resources(cubin.bytes());
  ASSERT_TRUE(resources.ok()) << resources.status().to_string();
  EXPECT_EQ(resources->front().registers, 40);
}

// 65000 sections whose names overlap: copied whole they would be 30 GB.
TEST(CubinInfo, OverlappingLongNamesCostLittle) {
  TinyCubin cubin;
  for (int i = 0; i < 65000; ++i) cubin.add_section("x", SHT_NULL, "");
  std::string bytes = cubin.bytes();
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::string names(1 << 20, 'n');
  names.push_back('\0');
  const Elf64_Shdr name_section = [&] {
    Elf64_Shdr section = {};
    section.sh_type = SHT_STRTAB;
    section.sh_offset = bytes.size();
    section.sh_size = names.size();
    return section;
  }();
  const auto section_at = [&](size_t i) { return header.e_shoff + i * sizeof(Elf64_Shdr); };
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const uint32_t name = static_cast<uint32_t>(i);
    std::memcpy(&bytes[section_at(i) + offsetof(Elf64_Shdr, sh_name)], &name, sizeof(name));
  }
  std::memcpy(&bytes[section_at(header.e_shstrndx)], &name_section, sizeof(name_section));
  const auto resources = read_cubin_resources(bytes + names);
  ASSERT_FALSE(resources.ok());
  EXPECT_NE(resources.status().message().find("no symbol table"), std::string::npos);
}

TEST(CubinInfo, OtherFilesAreRefusedWithTheReason) {
  const auto reason = [](std::string bytes) {
    const auto resources = read_cubin_resources(bytes);
    return resources.ok() ? "accepted" : resources.status().message();
  };
  EXPECT_EQ(reason(""), "cubin: shorter than an ELF header");
  EXPECT_EQ(reason(std::string(100, 'x')), "cubin: not a 64-bit little-endian ELF");
  std::string host = typical_cubin();
  const uint16_t machine = EM_X86_64;
  std::memcpy(&host[offsetof(Elf64_Ehdr, e_machine)], &machine, sizeof(machine));
  EXPECT_EQ(reason(host), "cubin: machine = 62, not 190 (CUDA)");
  std::string far = typical_cubin();
  const uint64_t offset = ~uint64_t{0} - 10;
  std::memcpy(&far[offsetof(Elf64_Ehdr, e_shoff)], &offset, sizeof(offset));
  EXPECT_EQ(reason(far), "cubin: section headers end beyond the file");
}

TEST(CubinInfo, AKernelWithoutANameIsRefused) {
  TinyCubin cubin;
  cubin.add_kernel(1000);
  const auto resources = read_cubin_resources(cubin.bytes());
  ASSERT_FALSE(resources.ok());
  EXPECT_EQ(resources.status().message(), "cubin: symbol 2 has no name");
}

TEST(CubinInfo, SurvivesDamageOfATinyCubin) { read_truncated_and_mutated(typical_cubin(), 1); }

TEST(CubinInfo, SurvivesDamageOfACompiledCubin) {
  const auto nvrtc = open_compiler(CompilerChoice::kNvrtc);
  if (!nvrtc.ok()) GTEST_SKIP() << nvrtc.status().message();
  const Result<Image> image = (*nvrtc)->compile(add_one_request(ImageKind::kCubin));
  ASSERT_TRUE(image.ok()) << image.status().to_string();
  read_truncated_and_mutated(image->bytes, 3);
}

TEST(PtxasLog, ReadsTheReportOfEveryKernel) {
  const auto kernels = parse_ptxas_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'first' for 'sm_80'\n"
      "ptxas info    : Function properties for first\n"
      "    256 bytes stack frame, 384 bytes spill stores, 392 bytes spill loads\n"
      "ptxas info    : Used 64 registers, used 1 barriers, 256 bytes cumulative stack size, "
      "2048 bytes smem, 364 bytes cmem[0]\n"
      "ptxas info    : Compiling entry function 'second' for 'sm_80'\n"
      "ptxas info    : Function properties for second\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, 360 bytes cmem[0]\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].entry, "first");
  EXPECT_EQ(kernels[0].registers, 64);
  EXPECT_EQ(kernels[0].shared_bytes, 2048);
  EXPECT_EQ(kernels[0].local_bytes, 256);
  EXPECT_EQ(kernels[0].spill_store_bytes, 384);
  EXPECT_EQ(kernels[0].spill_load_bytes, 392);
  EXPECT_EQ(kernels[1].entry, "second");
  EXPECT_EQ(kernels[1].registers, 8);
  EXPECT_EQ(kernels[1].shared_bytes, 0);
  EXPECT_EQ(kernels[1].spill_store_bytes, 0);
}

TEST(PtxasLog, AFunctionsPropertiesAreNotItsCallers) {
  const auto kernels = parse_ptxas_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
      "ptxas info    : Function properties for k\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Function properties for helper\n"
      "    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 12 registers\n");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].spill_store_bytes, 0);
  EXPECT_EQ(kernels[0].registers, 12);
}

TEST(PtxasLog, OddTextTellsNothing) {
  EXPECT_TRUE(parse_ptxas_log("").empty());
  EXPECT_TRUE(parse_ptxas_log("\n\n\n").empty());
  EXPECT_TRUE(parse_ptxas_log("Used 40 registers\n").empty()) << "of which kernel?";
  EXPECT_TRUE(parse_ptxas_log("Compiling entry function '").empty());
  const auto kernels = parse_ptxas_log(
      "Compiling entry function 'cut\n"
      " bytes stack frame, 99999999999999999999999 bytes spill stores, x bytes spill loads\n"
      "Used registers\nUsed many registers\n\xff\xfe");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].registers, -1);
  EXPECT_EQ(kernels[0].local_bytes, -1);
  EXPECT_EQ(kernels[0].spill_store_bytes, -1) << "does not fit";
  EXPECT_EQ(kernels[0].spill_load_bytes, -1);
}

TEST(PtxasLog, AdvisoryMessagesAreKeptInOrder) {
  const std::string serialized =
      "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
      "insufficient register resources for the wgmma pipeline in the function 'k'";
  const std::string ignored =
      "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register "
      "count at entry.";
  const auto warnings =
      parse_assembler_warnings("ptxas info    : " + serialized +
                               "\nptxas info    : 0 bytes gmem\nptxas warning : " + ignored +
                               "\nptxas info    : Compiling entry function 'k' for 'sm_90a'\n");
  EXPECT_EQ(warnings, (std::vector<std::string>{serialized, ignored}));
}

TEST(PtxasLog, OtherMessagesAreNoAdvice) {
  EXPECT_TRUE(parse_assembler_warnings("").empty());
  EXPECT_TRUE(parse_assembler_warnings("ptxas info : (C7600) else\n").empty());
  EXPECT_TRUE(parse_assembler_warnings("ptxas info : (C75").empty());
  EXPECT_TRUE(parse_assembler_warnings("ptxas info : (C751)  short\n").empty());
  EXPECT_TRUE(parse_assembler_warnings("k.cu(3): warning: #warning (C7510) of a source").empty());
  EXPECT_EQ(parse_assembler_warnings("ptxas info : (C7510)").size(), 1u) << "no newline, no text";
}

TEST(PtxasLog, RandomTextIsSurvived) {
  const std::string parts[] = {"Compiling entry function '",
                               "'",
                               "Used ",
                               " registers",
                               "\n",
                               "Function properties for ",
                               " bytes smem",
                               "12",
                               "k",
                               " bytes ",
                               "ptxas (C75",
                               "08)"};
  std::mt19937 random(7);
  for (int i = 0; i < kMutations; ++i) {
    std::string log;
    for (int j = 0; j < 30; ++j) log += parts[random() % std::size(parts)];
    for (const KernelResources& kernel : parse_ptxas_log(log)) EXPECT_GE(kernel.registers, -1);
    for (const std::string& warning : parse_assembler_warnings(log))
      EXPECT_EQ(warning.substr(0, 4), "(C75");
  }
}

TEST(PtxasLog, CompletesWhatTheImageTold) {
  std::vector<KernelResources> resources(2);
  resources[0].entry = "k";
  resources[0].registers = 40;
  resources[0].local_bytes = 16;
  resources[1].entry = "other";
  KernelResources reported;
  reported.entry = "k";
  reported.spill_store_bytes = 8;
  reported.local_bytes = 24;
  add_ptxas_report({reported}, &resources);
  EXPECT_EQ(resources[0].registers, 40) << "the report did not tell";
  EXPECT_EQ(resources[0].spill_store_bytes, 8);
  EXPECT_EQ(resources[0].local_bytes, 16) << "the image told";
  EXPECT_EQ(resources[1].spill_store_bytes, -1);
}

}  // namespace
}  // namespace lssar
