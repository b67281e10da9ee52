package clock

import "testing"

// TestSynchronized checks that the state of the kernel is read without harm, whatever it is. A process with a
// filter of system calls does not ask the kernel.
func TestSynchronized(t *testing.T) {
	synced, known := kernelSynchronized()
	if got := Synchronized(); known && !filtered() && got != synced {
		t.Errorf("synchronized %v, the kernel's state is %v", got, synced)
	}
}
