#include "errors.h"
namespace penstock::python {
void bind_stream(nb::module_&) {}
}  // namespace penstock::python
