package manage

import (
	"bytes"
	"os"
	"strconv"
)

// residentMemory returns the bytes of this process in the machine's memory, and how many of them belong
// to files.
func residentMemory() (all, files uint64, ok bool) {
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, 0, false
	}
	fields := bytes.Fields(data)
	if len(fields) < 3 {
		return 0, 0, false
	}
	all, err = strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0, 0, false
	}
	files, err = strconv.ParseUint(string(fields[2]), 10, 64)
	page := uint64(os.Getpagesize())
	return all * page, files * page, err == nil
}
