// The one table that maps C++ errors to Python exceptions.
#include <exception>

#include "base/cancel.h"
#include "base/error.h"
#include "register.h"

namespace py = pybind11;

namespace mqlab::bindings {

namespace {

// The class of mqlab.errors that a kind becomes.
const char* class_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "UsageError";
    case ErrorKind::kUnsupported:
      return "UnsupportedError";
    case ErrorKind::kSystem:
      return "SystemCallError";
    case ErrorKind::kTimeout:
      return "TimeoutError_";
    case ErrorKind::kInternal:
      return "InternalError";
    case ErrorKind::kViolation:
      return "ViolationError";
  }
  return "InternalError";
}

void raise(const Error& error) {
  const py::object type = py::module_::import("mqlab.errors").attr(class_of(error.kind));
  const py::object instance = type(error.what(), error.remedy, error.os_errno);
  PyErr_SetObject(type.ptr(), instance.ptr());
}

// pybind11 asks for this very signature.
void translate(std::exception_ptr pointer) {  // NOLINT(performance-unnecessary-value-param)
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const Error& error) {
    raise(error);
  } catch (const Cancelled&) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
  }
}

}  // namespace

void register_errors(py::module_&) { py::register_local_exception_translator(translate); }

}  // namespace mqlab::bindings
