package disktest

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestLose: what was synced is there whole, what was forgotten never, and each sector
// of what came later is as it was or as it became; all of that happens.
func TestLose(t *testing.T) {
	synced, later := bytes.Repeat([]byte{1}, 4*Sector), bytes.Repeat([]byte{2}, 4*Sector)
	seen := make(map[string]bool)
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var f File
		f.WriteAt(synced, 0)
		f.Sync()
		f.WriteAt(bytes.Repeat([]byte{3}, Sector), 0)
		f.Forget()
		f.WriteAt(later, 2*Sector)
		if !f.Unsynced() {
			t.Fatal("a write counts as synced")
		}
		got := f.Lose(rng)
		if len(got) < len(synced) || len(got) > 6*Sector || !bytes.Equal(got[:2*Sector], synced[:2*Sector]) {
			t.Fatalf("seed %d: %d bytes, and what was synced before them %v", seed, len(got),
				bytes.Equal(got[:2*Sector], synced[:2*Sector]))
		}
		state := ""
		for at := 2 * Sector; at < len(got); at += Sector {
			sector := got[at : at+Sector]
			if !bytes.Equal(sector, bytes.Repeat(sector[:1], Sector)) || sector[0] == 3 {
				t.Fatalf("seed %d: the sector at %d is torn: %v", seed, at, sector)
			}
			state += string('0' + rune(sector[0]))
		}
		seen[state] = true
	}
	for _, want := range []string{"11", "2222", "12", "21", "112", "1102"} {
		if !seen[want] {
			t.Errorf("sectors never %q after a cut, only %v", want, seen)
		}
	}
}

// TestTruncate: a file is cut and filled up with zeroes as files are.
func TestTruncate(t *testing.T) {
	f := NewFile([]byte("abcdef"))
	f.Truncate(2)
	f.WriteAt([]byte("x"), 4)
	f.Sync()
	f.Truncate(6)
	f.Sync()
	if got, want := f.Lose(rand.New(rand.NewPCG(1, 1))), "ab\x00\x00x\x00"; string(got) != want || f.Unsynced() {
		t.Errorf("the disk has %q, want %q", got, want)
	}
}
