// Package penstock sorts and merges files larger than memory within a budget of memory, and slices in place.
//
// It uses the C interface, penstock/penstock.h, which explains each part.
package penstock

/*
#cgo pkg-config: penstock
#include <penstock/penstock.h>
#include <stdlib.h>
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// An Error is a failed call: its code, and a message for people.
type Error struct {
	Code    int // a value of enum penstock_code
	Message string
}

func (e *Error) Error() string { return e.Message }

// fails returns the error of a call. Its message is the thread's, so the thread must not change
// after the call (runtime.LockOSThread).
func fails(code C.int) error {
	if code == C.PENSTOCK_OK {
		return nil
	}
	return &Error{int(code), C.GoString(C.penstock_error_message())}
}

// A Number is a type whose slices can be sorted: floats in their total order, NaNs last.
type Number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

func typeOf(item any) C.int {
	switch item.(type) {
	case uint8:
		return C.PENSTOCK_U8
	case int8:
		return C.PENSTOCK_I8
	case uint16:
		return C.PENSTOCK_U16
	case int16:
		return C.PENSTOCK_I16
	case uint32:
		return C.PENSTOCK_U32
	case int32:
		return C.PENSTOCK_I32
	case uint64:
		return C.PENSTOCK_U64
	case int64:
		return C.PENSTOCK_I64
	case float32:
		return C.PENSTOCK_F32
	default:
		return C.PENSTOCK_F64
	}
}

// Sort sorts items in place.
func Sort[T Number](items []T, threads uint) error {
	if len(items) == 0 {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	options := C.struct_penstock_sort_options{size: C.sizeof_struct_penstock_sort_options, threads: C.uint(threads)}
	return fails(C.penstock_sort(unsafe.Pointer(&items[0]), C.size_t(len(items)), typeOf(items[0]), &options))
}

// Files are the inputs, the output and the memory of an operation: options of the command line
// penstock.
type Files struct {
	Inputs               []string
	Output               string // "": standard output
	Format               string // "": lines
	Keys                 []string
	CSV                  bool
	HeaderLines          uint32
	Descending           bool
	MemoryBytes          uint64 // 0: 1 GiB
	TemporaryDirectories []string
}

// Sort sorts the inputs to the output, and returns statistics as JSON.
func (f Files) Sort() (string, error) {
	return f.run(func(files *C.struct_penstock_files_options, json **C.char) C.int {
		return C.penstock_sort_files(files, nil, json)
	})
}

// PlanSort returns the plan of Sort as JSON, and writes nothing.
func (f Files) PlanSort() (string, error) {
	return f.run(func(files *C.struct_penstock_files_options, json **C.char) C.int {
		return C.penstock_plan_sort_files(files, nil, json)
	})
}

// Merge merges sorted inputs.
func (f Files) Merge() (string, error) {
	return f.run(func(files *C.struct_penstock_files_options, json **C.char) C.int {
		return C.penstock_merge_files(files, nil, json)
	})
}

func (f Files) run(operation func(*C.struct_penstock_files_options, **C.char) C.int) (string, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// All memory that C sees is allocated by C.
	var owned []unsafe.Pointer
	defer func() {
		for _, pointer := range owned {
			C.free(pointer)
		}
	}()
	text := func(word string) *C.char {
		if word == "" {
			return nil
		}
		made := C.CString(word)
		owned = append(owned, unsafe.Pointer(made))
		return made
	}
	list := func(words []string) (**C.char, C.size_t) {
		if len(words) == 0 {
			return nil, 0
		}
		made := C.malloc(C.size_t(len(words)) * C.size_t(unsafe.Sizeof((*C.char)(nil))))
		owned = append(owned, made)
		for i, word := range words {
			unsafe.Slice((**C.char)(made), len(words))[i] = text(word)
		}
		return (**C.char)(made), C.size_t(len(words))
	}
	flag := func(set bool) C.int {
		if set {
			return 1
		}
		return 0
	}
	options := C.struct_penstock_files_options{size: C.sizeof_struct_penstock_files_options, output: text(f.Output),
		format: text(f.Format), csv: flag(f.CSV), header_lines: C.uint32_t(f.HeaderLines), descending: flag(f.Descending),
		memory_bytes: C.uint64_t(f.MemoryBytes)}
	options.inputs, options.inputs_count = list(f.Inputs)
	options.keys, options.keys_count = list(f.Keys)
	options.temp_directories, options.temp_directories_count = list(f.TemporaryDirectories)
	var json *C.char
	if err := fails(operation(&options, &json)); err != nil {
		return "", err
	}
	defer C.penstock_text_free(json)
	return C.GoString(json), nil
}
