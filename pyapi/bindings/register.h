// What module.cc calls: one function a subject, each defined in register_<subject>.cc.
#pragma once

#include <pybind11/pybind11.h>

namespace mqlab::bindings {

void register_errors(pybind11::module_& module);
void register_workloads(pybind11::module_& module);

}  // namespace mqlab::bindings
