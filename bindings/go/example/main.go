// Sorts the file of its first argument to the second, and a slice.
package main

import (
	"fmt"
	"os"
	"penstock"
	"strings"
)

func main() {
	files := penstock.Files{Inputs: os.Args[1:2], Output: os.Args[2], MemoryBytes: 256 << 20}
	stats, err := files.Sort()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	keys := []uint64{3, 1, 2}
	if err := penstock.Sort(keys, 1); err != nil {
		panic(err)
	}
	files.Inputs = []string{"/does/not/exist"}
	if _, err := files.Sort(); err == nil || !strings.Contains(err.Error(), "/does/not/exist") {
		panic("a file that is not there is an error")
	}
	fmt.Println(keys, strings.Contains(stats, "\"items\": 3"))
}
