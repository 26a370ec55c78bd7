// The Python module steadyrl.kernels._native.
#include <nanobind/nanobind.h>

#include <vector>

#include "arrays.h"
#include "isa.h"
#include "pool.h"

namespace nb = nanobind;

namespace steady {

std::vector<const char*> usable_isas();
void bind_mlp(nb::module_& module);
void bind_optim(nb::module_& module);
void bind_gather(nb::module_& module);
void bind_steps(nb::module_& module);
void bind_tape(nb::module_& module);

}  // namespace steady

NB_MODULE(_native, module) {
    using namespace steady;
    // Networks that live until exit are no leak, and the user must not read of them.
    nb::set_leak_warnings(false);
    isa();  // an unknown STEADYRL_ISA must fail here, not in the middle of an update
    module.def("isa", [] { return isa().name; });
    module.def("usable_isas", [] {
        nb::list names;
        for (const char* name : usable_isas()) names.append(name);
        return names;
    });
    module.def("set_threads", [](int threads) { Pool::get().set_threads(threads); }, nb::arg("threads"));
    module.def("threads", [] { return Pool::get().threads(); });
    module.def("forbid_exchange_api", forbid_exchange_api, nb::arg("forbid"));
    bind_mlp(module);
    bind_optim(module);
    bind_gather(module);
    bind_steps(module);
    bind_tape(module);
}
