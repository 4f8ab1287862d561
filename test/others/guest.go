// Streams in a Go program, which uses SIGSEGV itself: a nil dereference becomes a panic. guest_go CASE, or as a library
// GuestMain(CASE); both end with 0, or with a panic.
package main

/*
#include <stdlib.h>
#include "guest.h"
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"
)

const (
	numbers      = 3 << 20 // 24 MiB, through 320 KiB of memory
	blockBytes   = 64 << 10
	blockNumbers = blockBytes / 8
)

func check(good bool, what string) {
	if !good {
		panic(what)
	}
}

type node struct{ value [4096]int }

// Recovers from a nil dereference, which Go detects by a fault.
func dereferenceNil() (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	var none *node
	return fmt.Sprint(none.value[100])
}

func dereferencesNil() {
	for i := 0; i < 100; i++ {
		message := dereferenceNil()
		check(message == "runtime error: invalid memory address or nil pointer dereference", message)
	}
}

var sink []byte

func collect() {
	for i := 0; i < 5; i++ {
		sink = make([]byte, 1<<20)
		runtime.GC()
	}
}

func stream() {
	expected := C.guest_checksum(numbers)
	for mechanism := C.int(0); mechanism < 4; mechanism++ {
		found := C.guest_stream(numbers, mechanism)
		check(found == expected || (mechanism != 0 && found == 0), "checksum")
	}
	check(C.guest_installed() == 1, "the library is in front")
}

// Both ends in goroutines, each in one call; returns when the pipe is used up.
func pipe(during func()) {
	pipe := C.guest_open(numbers*8, blockBytes, 0)
	sum := make(chan C.uint64_t)
	go func() { sum <- C.guest_drain(pipe, numbers) }()
	during()
	C.guest_produce(pipe, numbers, 0)
	check(<-sum == C.guest_checksum(numbers), "checksum")
	C.guest_close(pipe)
}

func beforeAndAfter() {
	dereferencesNil()
	collect()
	C.guest_watch()
	stream()
	before := C.guest_passed_on()
	dereferencesNil()
	check(C.guest_passed_on() >= before+100, "Go's faults came through the library")
	collect()
	check(C.guest_uninstall() == 1 && C.guest_installed() == 0, "uninstall")
	dereferencesNil()
	stream()
	dereferencesNil()
}

func during() {
	done := make(chan bool)
	for i := 0; i < 3; i++ {
		go func() {
			for j := 0; j < 3; j++ {
				stream()
			}
			done <- true
		}()
	}
	for i := 0; i < 3; {
		select {
		case <-done:
			i++
		default:
			dereferencesNil()
			collect()
		}
	}
}

// A goroutine waits in a fault inside a C call, for another one that collects garbage before it delivers.
func collectsWhileACallWaits() {
	pipe(func() {
		time.Sleep(50 * time.Millisecond)
		collect()
		dereferencesNil()
	})
}

// reader returns the stream as a Go slice; it contains no Go pointers.
func reader(pipe *C.guest_pipe) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(C.guest_reader(pipe))), numbers)
}

func wrongNumbers(number []uint64, first int) (wrong int) {
	for i, n := range number {
		if n != uint64(first+i)*0x9e3779b97f4a7c15 {
			wrong++
		}
	}
	return wrong
}

// Go code itself loads from the stream: its faults are served on Go's signal stack.
func goCodeReads() {
	pipe := C.guest_open(numbers*8, blockBytes, 0)
	done := make(chan bool)
	go func() {
		C.guest_produce(pipe, numbers, 0)
		done <- true
	}()
	check(wrongNumbers(reader(pipe), 0) == 0, "numbers")
	<-done
	dereferencesNil()
	C.guest_close(pipe)
}

// Go code loads window by window, each prepared by a call, in which Go can stop the goroutine.
func goCodeReadsPreparedWindows() {
	pipe := C.guest_open(numbers*8, blockBytes, 0)
	done := make(chan bool)
	go func() {
		for first := 0; first < numbers; first += blockNumbers {
			runtime.GC()
			C.guest_fill(pipe, C.uint64_t(first), C.uint64_t(first+blockNumbers))
		}
		C.guest_finish(pipe, numbers)
		done <- true
	}()
	number := reader(pipe)
	wrong := 0
	for first := 0; first < numbers; first += blockNumbers {
		window := number[first : first+blockNumbers]
		check(C.guest_prepare_read(pipe, (*C.char)(unsafe.Pointer(&window[0])), blockBytes) == 1, "prepare")
		wrong += wrongNumbers(window, first)
	}
	check(wrong == 0, "numbers")
	<-done
	C.guest_close(pipe)
}

// A collection and all goroutines wait while Go code itself waits in a fault; they continue because the producer
// is C code. (A Go producer would wait for the collection: a deadlock.)
func collectionWaitsForGoCode() {
	pipe := C.guest_open(numbers*8, blockBytes, 0)
	done := make(chan bool)
	go func() {
		C.guest_produce(pipe, numbers, 300)
		done <- true
	}()
	go func() {
		check(wrongNumbers(reader(pipe), 0) == 0, "numbers")
		done <- true
	}()
	time.Sleep(50 * time.Millisecond)
	start := time.Now()
	runtime.GC()
	fmt.Println("gc_ms", time.Since(start).Milliseconds())
	<-done
	<-done
	C.guest_close(pipe)
}

var cases = map[string]func(){
	"before_and_after":               beforeAndAfter,
	"during":                         during,
	"collects_while_a_call_waits":    collectsWhileACallWaits,
	"go_code_reads":                  goCodeReads,
	"go_code_reads_prepared_windows": goCodeReadsPreparedWindows,
	"collection_waits_for_go_code":   collectionWaitsForGoCode,
}

//export GuestMain
func GuestMain(name *C.char) C.int {
	debug.SetTraceback("all")
	cases[C.GoString(name)]()
	return 0
}

func main() {
	name := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(name))
	os.Exit(int(GuestMain(name)))
}
