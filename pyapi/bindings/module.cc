// mqlab._core: the C++ engine for Python. This file only registers.
#include "register.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ engine of mqlab.";
  mqlab::bindings::register_errors(module);
  mqlab::bindings::register_workloads(module);
}
