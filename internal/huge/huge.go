// Package huge asks the system for huge pages, and for memory before it is used.
package huge

// smallPage is the size of the smallest pages of any system, in bytes.
const smallPage = 4096

// store writes to each page of memory that is all zero.
func store(memory []uint64) {
	for i := 0; i < len(memory); i += smallPage / 8 {
		memory[i] = 0
	}
}
