package logbook

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bulkhead-mail/bulkhead"
)

// sumsOf opens sums and closes them with the test.
func sumsOf(t *testing.T, path string) *Sums {
	t.Helper()
	s := OpenSums(path, nil)
	t.Cleanup(func() { s.Close() })
	return s
}

// TestSums compares the slots with the sums of a plain list of counts and their times, with gaps of
// any length and restarts in between.
func TestSums(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		runs++
		path := filepath.Join(dir, fmt.Sprint(runs))
		defer os.Remove(path)
		s := OpenSums(path, nil)
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		type event struct {
			at   time.Time
			door string
			n    uint64
		}
		var all []event
		counted := make(map[string]Sum)
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Minute, 9 * time.Minute, time.Hour, 23 * time.Hour,
				20 * 24 * time.Hour}).Draw(t, "gap"))
			e := event{now, rapid.SampledFrom([]string{"http", "milter"}).Draw(t, "door"), rapid.Uint64Range(0, 9).Draw(t, "n")}
			sum := counted[e.door]
			sum.Verdicts[bulkhead.ClassSpam] += e.n
			sum.Votes[bulkhead.Ham] += 2 * e.n
			sum.Looks += 3 * e.n
			counted[e.door] = sum
			s.Note(now, maps.Clone(counted))
			all = append(all, e)
			switch rapid.IntRange(0, 9).Draw(t, "then") {
			case 0:
				if err := s.Write(); err != nil {
					t.Fatal(err)
				}
			case 1: // the counters begin anew
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if err := InspectSums(path); err != nil {
					t.Fatal(err)
				}
				s, counted = OpenSums(path, nil), make(map[string]Sum)
			}
		}
		defer s.Close()
		for length, kept := range map[time.Duration]time.Duration{ShortSlot: shortFor, LongSlot: longFor,
			24 * time.Hour: longFor} {
			since := now.Add(-kept).Truncate(24 * time.Hour).Add(24 * time.Hour)
			want := make(map[time.Time]map[string]Sum)
			for _, e := range all {
				start := e.at.Truncate(length)
				if start.Before(since) || e.n == 0 {
					continue
				}
				if want[start] == nil {
					want[start] = make(map[string]Sum)
				}
				sum := want[start][e.door]
				sum.Verdicts[bulkhead.ClassSpam] += e.n
				sum.Votes[bulkhead.Ham] += 2 * e.n
				sum.Looks += 3 * e.n
				want[start][e.door] = sum
			}
			got := make(map[time.Time]map[string]Sum)
			last := time.Time{}
			for _, slot := range s.Slots(since, now.Add(time.Second), length) {
				if !slot.Start.After(last) {
					t.Fatalf("slots of %v: %v after %v", length, slot.Start, last)
				}
				last = slot.Start
				got[slot.Start] = slot.Doors
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("slots of %v since %v: %v, want %v", length, since, got, want)
			}
		}
	})
}

// TestSumsBounds: only the slots of a day and a month are kept, in memory and on disk, whatever the
// clock did before, and new counts are always among them.
func TestSumsBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sums.db")
	s := sumsOf(t, path)
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	n := uint64(0)
	note := func(at time.Time) {
		n++
		s.Note(at, map[string]Sum{"http": {Looks: n}})
	}
	for i := range 2000 { // a clock that is wrong
		note(now.AddDate(5, 0, 0).Add(time.Duration(i) * time.Hour))
	}
	for i := range 2400 {
		now = now.Add(time.Hour)
		note(now)
		if i%100 == 0 {
			if err := s.Write(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := sumsOf(t, path)
	for i, most := range []int{int(shortFor/ShortSlot) + 1, int(longFor/LongSlot) + 1, int(minuteFor/MinuteSlot) + 1} {
		if got := len(again.series[i].slots); got != most || got != again.series[i].most {
			t.Errorf("series %d: %d slots are on disk, want %d", i, got, most)
		}
	}
	got := again.Slots(now.Add(-longFor), now.Add(time.Second), LongSlot)
	if len(got) != 2161 || !got[2160].Start.Equal(now) {
		t.Errorf("%d slots, the last %v", len(got), got[len(got)-1])
	}
	for range 3 * maxSumDoors {
		n++
		again.Note(now, map[string]Sum{fmt.Sprint(n): {Looks: 1}})
	}
	if got := len(again.Slots(now, now.Add(time.Second), LongSlot)[0].Doors); got != maxSumDoors {
		t.Errorf("sums of %d doors, want %d", got, maxSumDoors)
	}
}

// TestSumsDamage: a damaged file is set aside, and counting goes on. If only single slots are
// damaged, only these are lost.
func TestSumsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sums.db")
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s := OpenSums(path, nil)
	s.Note(now, map[string]Sum{"http": {Looks: 3}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stored := encodeSums(map[string]Sum{"http": {Looks: 3}})
	flipped := bytes.ReplaceAll(whole, stored, append(bytes.Clone(stored[:len(stored)-1]), ^stored[len(stored)-1]))
	if bytes.Equal(flipped, whole) {
		t.Fatal("the slot is not in the file")
	}
	for name, data := range map[string][]byte{"a slot": flipped, "all": bytes.Repeat([]byte("x"), 1<<16),
		"cut": whole[:len(whole)/3]} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if InspectSums(path) == nil {
			t.Errorf("%s: nothing is found wrong", name)
		}
		s := OpenSums(path, nil)
		s.Note(now, map[string]Sum{"http": {Looks: 5}})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s.Stats.Damaged.Load() == 0 {
			t.Errorf("%s: no damage was counted", name)
		}
		if _, err := os.Stat(path + ".damaged"); (err == nil) != (name != "a slot") {
			t.Errorf("%s: set aside: %v", name, err)
		}
		os.Remove(path + ".damaged")
		again := OpenSums(path, nil)
		if got := again.Slots(now, now.Add(time.Second), LongSlot); len(got) != 1 || got[0].Doors["http"].Looks != 5 {
			t.Errorf("%s: after it %v", name, got)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSumsNoPlace: without a file the numbers are held in memory, each failed attempt is counted,
// and they are written once there is a file.
func TestSumsNoPlace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	path := filepath.Join(dir, "sums.db")
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s := OpenSums(path, nil)
	s.Note(now, map[string]Sum{"http": {Looks: 3}})
	if err := s.Write(); err == nil || s.Stats.Failed.Load() != 1 {
		t.Errorf("written to no folder: %v, %d failures", err, s.Stats.Failed.Load())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	other := OpenSums(path, nil) // earlier contents are not lost
	other.Note(now, map[string]Sum{"http": {Looks: 4}})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := sumsOf(t, path)
	if got := again.Slots(now, now.Add(time.Second), ShortSlot); len(got) != 1 || got[0].Doors["http"].Looks != 7 {
		t.Errorf("then %v", got)
	}
}

func FuzzDecodeSums(f *testing.F) {
	whole := encodeSums(map[string]Sum{"http": {Looks: 300}, "milter": {Votes: [bulkhead.NumVotes]uint64{1, 2}}})
	f.Add(whole[:len(whole)-4])
	f.Add([]byte{sumsVersion, byte(numFields)})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		decodeSums(body)
		doors, err := decodeSumsBody(body)
		if err != nil {
			return
		}
		again, err := decodeSums(encodeSums(doors))
		if err != nil || !reflect.DeepEqual(doors, again) {
			t.Fatalf("%v is read back as %v, %v", doors, again, err)
		}
	})
}
