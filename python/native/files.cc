#include "errors.h"
namespace penstock::python {
void bind_files(nb::module_&) {}
}  // namespace penstock::python
