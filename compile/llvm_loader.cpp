// The part of liblssar_llvm.so that loads objects. It uses LLVM's JITLink, with one session for
// each object, so that unloading an object frees all of its memory.
#include <sched.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/Support/Error.h>
#include <llvm/Support/MemoryBuffer.h>

#include "compile/llvm_abi.h"
#include "compile/llvm_text.h"

namespace orc = llvm::orc;

struct lssar_llvm_loaded {
  std::unique_ptr<orc::ExecutionSession> session;
  std::unique_ptr<orc::ObjectLinkingLayer> layer;
  orc::JITDylib* symbols = nullptr;
  // What LLVM reports besides the error that it returns, such as symbols that were not found.
  std::mutex mutex;
  std::string reports;

  void report(llvm::Error error) {
    const std::lock_guard<std::mutex> lock(mutex);
    reports += (reports.empty() ? "" : "; ") + llvm::toString(std::move(error));
  }
  std::string text_of(llvm::Error error) {
    report(std::move(error));
    const std::lock_guard<std::mutex> lock(mutex);
    return std::exchange(reports, {});
  }

  ~lssar_llvm_loaded() {
    // Frees the linked memory. Nothing can be done about an error here.
    if (session != nullptr) llvm::consumeError(session->endSession());
  }
};

namespace {

// Provides the functions that LLVM calls in place of loops that copy or clear memory, and the one
// by which a kernel lets other threads have the CPU.
llvm::Error provide_functions(lssar_llvm_loaded& loaded) {
  orc::SymbolMap provided;
  const auto provide = [&](const char* name, auto* function) {
    provided[loaded.session->intern(name)] = {orc::ExecutorAddr::fromPtr(function),
                                              llvm::JITSymbolFlags::Exported};
  };
  provide("memcpy", &std::memcpy);
  provide("memmove", &std::memmove);
  provide("memset", &std::memset);
  provide("sched_yield", &sched_yield);
  return loaded.symbols->define(orc::absoluteSymbols(std::move(provided)));
}

llvm::Error link(lssar_llvm_loaded& loaded, const char* object, size_t bytes) {
  auto process = orc::SelfExecutorProcessControl::Create();
  if (!process) return process.takeError();
  loaded.session = std::make_unique<orc::ExecutionSession>(std::move(*process));
  loaded.session->setErrorReporter(
      [&loaded](llvm::Error error) { loaded.report(std::move(error)); });
  loaded.layer = std::make_unique<orc::ObjectLinkingLayer>(
      *loaded.session, loaded.session->getExecutorProcessControl().getMemMgr());
  loaded.symbols = &loaded.session->createBareJITDylib("kernel");
  if (llvm::Error error = provide_functions(loaded)) return error;
  auto copy = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object, bytes), "kernel");
  return loaded.layer->add(*loaded.symbols, std::move(copy));
}

}  // namespace

extern "C" {

void lssar_llvm_load(const char* object, size_t bytes, lssar_llvm_load_result* result) {
  *result = {};
  result->outcome = LSSAR_LLVM_FAILED;
  try {
    auto loaded = std::make_unique<lssar_llvm_loaded>();
    if (llvm::Error error = link(*loaded, object, bytes)) {
      result->outcome = LSSAR_LLVM_REFUSED;
      result->log = lssar::copy_text(loaded->text_of(std::move(error)));
      return;
    }
    result->loaded = loaded.release();
    result->outcome = LSSAR_LLVM_DONE;
  } catch (const std::exception& e) {
    result->log = lssar::copy_text(e.what());
  }
}

// The first call links the object. Only then are all addresses known.
void lssar_llvm_function(lssar_llvm_loaded* loaded, const char* name,
                         lssar_llvm_function_result* result) {
  *result = {};
  try {
    auto found = loaded->session->lookup({loaded->symbols}, loaded->session->intern(name));
    if (found) {
      result->address = found->getAddress().toPtr<void*>();
      return;
    }
    result->log = lssar::copy_text(loaded->text_of(found.takeError()));
  } catch (const std::exception& e) {
    result->log = lssar::copy_text(e.what());
  }
}

void lssar_llvm_unload(lssar_llvm_loaded* loaded) { delete loaded; }

void lssar_llvm_release_log(char* log) { std::free(log); }

}  // extern "C"
