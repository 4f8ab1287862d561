// Memory sorted, and an error's message, from Go.
package main

// #cgo pkg-config: penstock
// #include <penstock/penstock.h>
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

func main() {
	keys := []uint64{3, 1, 2}
	first := unsafe.Pointer(&keys[0])
	if C.penstock_sort(first, C.size_t(len(keys)), C.PENSTOCK_U64, nil) != C.PENSTOCK_OK {
		panic(C.GoString(C.penstock_error_message()))
	}
	if C.penstock_sort(first, 3, 99, nil) != C.PENSTOCK_INVALID_ARGUMENT ||
		!strings.Contains(C.GoString(C.penstock_error_message()), "99") {
		panic("no such type is an error")
	}
	fmt.Println(keys)
}
