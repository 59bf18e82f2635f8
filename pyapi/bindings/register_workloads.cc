#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "base/cancel.h"
#include "base/error.h"
#include "register.h"
#include "workloads/workload.h"

namespace py = pybind11;

namespace mqlab::bindings {

namespace {

constexpr std::chrono::milliseconds kSignalCheckInterval{50};

std::string run_text(const std::string& name, const std::string& spec) {
  workloads::Json parsed;
  try {
    parsed = workloads::Json::parse(spec);
  } catch (const workloads::Json::exception& error) {
    throw Error(ErrorKind::kUsage, std::string("the spec is no JSON: ") + error.what(), "give a JSON object");
  }
  return workloads::run_workload(name, parsed).dump();
}

// Python runs signal handlers only in its main thread, and only while that thread executes Python code. So
// there the workload runs beside it, on a thread of its own, while the main thread keeps asking for signals.
std::string run_interruptibly(const std::string& name, const std::string& spec) {
  std::string result;
  std::exception_ptr failure;
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;

  const py::gil_scoped_release unlocked;
  const CancelScope scope;
  std::jthread worker([&] {
    try {
      result = run_text(name, spec);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard guard(mutex);
    done = true;
    finished.notify_one();
  });

  std::unique_lock lock(mutex);
  while (!finished.wait_for(lock, kSignalCheckInterval, [&] { return done; })) {
    lock.unlock();
    {
      const py::gil_scoped_acquire locked;
      if (PyErr_CheckSignals() != 0) {
        request_cancel();
        const py::error_already_set interrupt;  // takes the exception, before another thread can see it
        const py::gil_scoped_release waiting;
        worker.join();
        const py::gil_scoped_acquire again;
        throw interrupt;
      }
    }
    lock.lock();
  }
  lock.unlock();
  worker.join();
  if (failure) std::rethrow_exception(failure);
  return result;
}

bool is_main_thread() {
  const py::module_ threading = py::module_::import("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

std::string run_workload(const std::string& name, const std::string& spec) {
  if (is_main_thread()) return run_interruptibly(name, spec);
  const py::gil_scoped_release unlocked;
  return run_text(name, spec);
}

}  // namespace

void register_workloads(py::module_& module) {
  module.def("run_workload", &run_workload, py::arg("name"), py::arg("spec"),
             "Runs a workload once and returns its result; spec and result are JSON texts.\n\n"
             "The GIL is released while it runs. Ctrl-C ends it with KeyboardInterrupt.");
  module.def(
      "list_workloads", [] { return workloads::describe_workloads().dump(); },
      "All workloads with their targets, parameters and policies, as a JSON text.");
  module.def("version", [] { return std::string(MQLAB_VERSION); }, "The version that the extension was built as.");
  module.def("request_cancel", &request_cancel,
             "Asks every running workload of this process to stop; returns whether one was running.\n\n"
             "Each ends with KeyboardInterrupt in the thread that runs it.");
}

}  // namespace mqlab::bindings
