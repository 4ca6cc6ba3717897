// The LLVM compiler library, liblssar_llvm.so: clang 19's front end and LLVM's back ends for PTX
// and x86-64 behind the C interface of llvm_abi.h. Only this part of lssar links LLVM;
// llvm_loader.cpp loads the objects that it makes.
//
// Nothing touches the disk: the source and the prelude are the only files, and the image goes to
// memory. Threads: every compile has its own context and its own thread, because clang needs a
// larger stack than a caller's thread may have.
#include <pthread.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <clang/Basic/Diagnostic.h>
#include <clang/Basic/DiagnosticOptions.h>
#include <clang/Basic/TargetInfo.h>
#include <clang/Basic/Version.h>
#include <clang/CodeGen/BackendUtil.h>
#include <clang/CodeGen/CodeGenAction.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <llvm/ADT/SmallString.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>

#include "compile/llvm_abi.h"
#include "compile/llvm_parameters.h"
#include "compile/llvm_prelude.h"
#include "compile/llvm_text.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

namespace {

constexpr size_t kStackBytes = 64u << 20;  // address space; pages are allocated when used
constexpr char kPreludePath[] = "/lssar_prelude.h";

struct Outcome {
  int32_t code = LSSAR_LLVM_FAILED;
  std::string image;
  std::string log;
};

// Where report_fatal_error of this thread jumps to. LLVM would exit the process, which may be a
// training job. Leaving the compile by longjmp only leaks its memory.
struct FatalErrorTarget {
  std::jmp_buf jump;
  char message[1024];
};
thread_local FatalErrorTarget* fatal_error_target = nullptr;

void on_fatal_error(void* /*data*/, const char* reason, bool /*want_crash_report*/) {
  FatalErrorTarget* target = fatal_error_target;
  if (target == nullptr) return;  // not in one of our compiles: LLVM continues as usual
  std::strncpy(target->message, reason, sizeof(target->message) - 1);
  std::longjmp(target->jump, 1);
}

void initialize_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    llvm::install_fatal_error_handler(on_fatal_error, nullptr);
  });
}

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> make_files(const lssar_llvm_request& request,
                                                           const std::string& path) {
  auto files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  // Makes diagnostics show the file's name as it was given.
  files->setCurrentWorkingDirectory("/");
  files->addFile(path, 0,
                 llvm::MemoryBuffer::getMemBufferCopy(
                     llvm::StringRef(request.source, request.source_bytes), path));
  files->addFile(kPreludePath, 0,
                 llvm::MemoryBuffer::getMemBuffer(lssar::kLlvmPrelude, kPreludePath));
  return files;
}

// The back end's messages after clang's own handler is gone. LLVM's default handler would print
// errors and exit the process.
struct BackEndLog {
  llvm::raw_ostream& log;
  bool has_errors = false;

  static void write(const llvm::DiagnosticInfo* info, void* self) {
    BackEndLog& target = *static_cast<BackEndLog*>(self);
    if (info->getSeverity() == llvm::DS_Remark) return;
    const bool is_error = info->getSeverity() == llvm::DS_Error;
    target.has_errors |= is_error;
    target.log << (is_error ? "error: " : "note: ");
    llvm::DiagnosticPrinterRawOStream printer(target.log);
    info->print(printer);
    target.log << "\n";
  }
};

// Runs only the back end, after the passes. Returns false if it refused.
bool write_image(clang::CompilerInstance& clang, llvm::Module& module, llvm::raw_ostream& log,
                 clang::BackendAction kind, llvm::SmallVectorImpl<char>& image) {
  BackEndLog back_end_log = {log};
  module.getContext().setDiagnosticHandlerCallBack(&BackEndLog::write, &back_end_log);
  clang.getCodeGenOpts().DisableLLVMPasses = true;
  clang::EmitBackendOutput(clang.getDiagnostics(), clang.getHeaderSearchOpts(),
                           clang.getCodeGenOpts(), clang.getTargetOpts(), clang.getLangOpts(),
                           clang.getTarget().getDataLayoutString(), &module, kind,
                           clang.getFileManager().getVirtualFileSystemPtr(),
                           std::make_unique<llvm::raw_svector_ostream>(image));
  return !back_end_log.has_errors && !clang.getDiagnostics().hasErrorOccurred();
}

// Runs clang. All of its messages go to outcome->log.
void run_clang(const lssar_llvm_request& request, Outcome* outcome) {
  const std::string path = request.file_name;
  std::vector<const char*> options(request.options, request.options + request.num_options);
  const bool is_ptx = request.output == LSSAR_LLVM_PTX;
  if (is_ptx) options.insert(options.end(), {"-include", kPreludePath});
  options.push_back(path.c_str());

  llvm::raw_string_ostream log(outcome->log);
  llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> diagnostic_options(
      new clang::DiagnosticOptions);
  clang::TextDiagnosticPrinter printer(log, diagnostic_options.get());

  auto invocation = std::make_shared<clang::CompilerInvocation>();
  clang::DiagnosticsEngine option_diagnostics(new clang::DiagnosticIDs, diagnostic_options,
                                              &printer, /*ShouldOwnClient=*/false);
  if (!clang::CompilerInvocation::CreateFromArgs(*invocation, options, option_diagnostics)) {
    outcome->code = LSSAR_LLVM_REFUSED;
    return;
  }

  llvm::SmallString<0> image;
  clang::CompilerInstance clang;
  clang.setInvocation(std::move(invocation));
  clang.createDiagnostics(&printer, /*ShouldOwnClient=*/false);
  clang.setVerboseOutputStream(log);
  clang.createFileManager(make_files(request, path));
  llvm::LLVMContext context;
  clang::EmitLLVMOnlyAction action(&context);
  bool done = clang.ExecuteAction(action) && !clang.getDiagnostics().hasErrorOccurred();
  const std::unique_ptr<llvm::Module> module = action.takeModule();
  if (done && module != nullptr) {
    if (is_ptx) lssar::use_parameters_in_place(*module);
    done = write_image(clang, *module, log,
                       is_ptx ? clang::Backend_EmitAssembly : clang::Backend_EmitObj, image);
  }
  outcome->code = done ? LSSAR_LLVM_DONE : LSSAR_LLVM_REFUSED;
  if (done) outcome->image.assign(image.data(), image.size());
}

void run_guarded(const lssar_llvm_request& request, Outcome* outcome) {
  static thread_local FatalErrorTarget target;
  target.message[0] = '\0';
  if (setjmp(target.jump) != 0) {
    fatal_error_target = nullptr;
    outcome->code = LSSAR_LLVM_FAILED;
    outcome->log += "LLVM failed: ";
    outcome->log += target.message;
    return;
  }
  fatal_error_target = &target;
  try {
    run_clang(request, outcome);
  } catch (const std::exception& e) {
    outcome->code = LSSAR_LLVM_FAILED;
    outcome->log += std::string("LLVM failed: ") + e.what();
  }
  fatal_error_target = nullptr;
}

struct Job {
  const lssar_llvm_request* request;
  Outcome* outcome;
};

void* run_job(void* argument) {
  const Job* job = static_cast<const Job*>(argument);
  run_guarded(*job->request, job->outcome);
  return nullptr;
}

// NOTE: not llvm::thread, which ends the process if no thread can be made.
void run_in_thread(const lssar_llvm_request& request, Outcome* outcome) {
  Job job = {&request, outcome};
  pthread_attr_t attributes;
  pthread_t thread;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    error = pthread_attr_setstacksize(&attributes, kStackBytes);
    if (error == 0) error = pthread_create(&thread, &attributes, run_job, &job);
    pthread_attr_destroy(&attributes);
  }
  if (error == 0) {
    pthread_join(thread, nullptr);
  } else {
    outcome->log = std::string("no thread for the compiler: ") + std::strerror(error);
  }
}

// "19.1.7" from "Debian clang version 19.1.7 (3)": the running release, which may differ from that
// of the headers.
std::string running_version() {
  const std::string text = clang::getClangFullVersion();
  const std::string marker = "version ";
  const size_t at = text.find(marker);
  if (at == std::string::npos) return CLANG_VERSION_STRING;
  const size_t first = at + marker.size();
  return text.substr(first, text.find(' ', first) - first);
}

}  // namespace

extern "C" {

uint32_t lssar_llvm_abi_version() { return LSSAR_LLVM_ABI_VERSION; }

const char* lssar_llvm_version() {
  try {
    static const std::string version = running_version();
    return version.c_str();
  } catch (const std::exception&) {
    return CLANG_VERSION_STRING;
  }
}

void lssar_llvm_compile(const lssar_llvm_request* request, lssar_llvm_result* result) {
  *result = {};
  result->outcome = LSSAR_LLVM_FAILED;
  try {
    initialize_once();
    Outcome outcome;
    run_in_thread(*request, &outcome);
    result->image = lssar::copy_text(outcome.image);
    result->log = lssar::copy_text(outcome.log);
    if (result->image == nullptr || result->log == nullptr) return;
    result->image_bytes = outcome.image.size();
    result->log_bytes = outcome.log.size();
    result->outcome = outcome.code;
  } catch (const std::exception&) {
    // Out of memory: the outcome is LSSAR_LLVM_FAILED without a log.
  }
}

void lssar_llvm_release(lssar_llvm_result* result) {
  std::free(result->image);
  std::free(result->log);
  *result = {};
}

}  // extern "C"
