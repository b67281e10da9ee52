package member

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/mesh/wire"
)

// TestLineage runs histories of an origin that is started, adds, and is set back at random to a
// moment of its history. It compares every prefix that a process had with the history of the last
// process. Content that the lineage declares part of the history is part of it. In a history that
// was never set back, all content is.
func TestLineage(t *testing.T) {
	type held struct {
		history []int // numbers of the changes
		boot    uint64
	}
	doubted := 0
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		setBack, machine := seed%4 > 0, seed%4 == 1
		s := Record{Boot: 1}
		x := wire.Ref{Array: engine.ArrayCounts, Start: 7}
		var now []int
		var replicas []held
		type moment struct {
			history []int
			state   Record
		}
		var saved []moment
		boots := uint64(1)
		for change := 0; change < 60; {
			if setBack && len(saved) > 0 && rng.IntN(4) == 0 {
				at := rng.IntN(len(saved))
				m := saved[at]
				saved = saved[:at+1]
				now = slices.Clone(m.history)
				if machine {
					s = m.state
				}
			}
			before := s.Boot
			boots += 1 + rng.Uint64N(3) // the clock advances
			s.Boot = boots
			s.Arrays = slices.Clone(s.Arrays)
			s.found([]engine.ArrayState{{Array: x.Array, Start: x.Start, Version: uint64(len(now))}}, before)
			for range rng.IntN(8) {
				now = append(now, change)
				change++
				if rng.IntN(2) == 0 {
					replicas = append(replicas, held{slices.Clone(now), s.Boot})
				}
			}
			if rng.IntN(3) == 0 {
				saved = append(saved, moment{slices.Clone(now), s})
			}
			for _, h := range replicas {
				is := len(h.history) <= len(now) && slices.Equal(h.history, now[:len(h.history)])
				got := s.LineageOf(x).Contains(engine.ArrayState{Version: uint64(len(h.history)), Boot: h.boot}, s.Boot)
				// A longer history is detected by its version.
				if got && !is && len(h.history) <= len(now) {
					t.Fatalf("seed %d: lineage %v of process %d takes %d changes of process %d for a part of its own", seed,
						s.LineageOf(x), s.Boot, len(h.history), h.boot)
				}
				if !got && is {
					doubted++
					if !setBack && s.LineageOf(x)[0].Boot < h.boot {
						t.Fatalf("seed %d: lineage %v of process %d doubts %d changes of process %d", seed, s.LineageOf(x), s.Boot,
							len(h.history), h.boot)
					}
				}
			}
			if len(s.LineageOf(x)) > wire.MaxEpochs {
				t.Fatalf("seed %d: lineage of %d epochs", seed, len(s.LineageOf(x)))
			}
		}
	}
	t.Logf("%d replicas doubted without need", doubted)
}

// TestBegin checks when a process begins a new incarnation: with the first store and with another one, unless that
// holds all of it, and after an end that may have lost what was published. Numbers only grow, whatever the clock says.
func TestBegin(t *testing.T) {
	day := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		store    string
		unsynced bool // reports are acknowledged before they are on disk
		whole    bool
		now      time.Time
		crash    bool // the process before ended without notice
		renewed  bool
	}{
		"a restart":                  {store: "a", now: day},
		"another store":              {store: "b", now: day, renewed: true},
		"another store with all":     {store: "b", now: day, whole: true},
		"a crash":                    {store: "a", now: day, crash: true},
		"a crash, not on disk":       {store: "a", unsynced: true, now: day, crash: true, renewed: true},
		"an end, not on disk before": {store: "a", unsynced: true, now: day},
		"a clock that went back":     {store: "a", now: day.AddDate(-1, 0, 0)},
		"a clock before 1970":        {store: "b", now: time.Unix(-5, 0), renewed: true},
	} {
		o := &Options{Dir: t.TempDir(), Identity: newIdentityOf(t), Store: "a", Unsynced: tt.unsynced,
			Now: func() time.Time { return day }}
		begin := func() (*State, bool) {
			t.Helper()
			s, err := OpenState(o)
			if err != nil {
				t.Fatal(err)
			}
			renewed, err := s.Begin(nil, tt.whole)
			if err != nil {
				t.Fatal(err)
			}
			return s, renewed
		}
		first, renewed := begin()
		life, boot := first.Life()
		if millis := uint64(day.UnixMilli()); !renewed || life != millis || boot < life || boot >= life+1024 ||
			first.Started() != millis {
			t.Errorf("%s: the first process begins %d, %d, renewed %v", name, life, boot, renewed)
		}
		if !tt.crash {
			if err := first.Close(true); err != nil {
				t.Fatal(err)
			}
		}
		o.Store, o.Now = tt.store, func() time.Time { return tt.now }
		second, renewed := begin()
		nextLife, nextBoot := second.Life()
		if renewed != tt.renewed || nextBoot <= boot || tt.renewed && nextLife <= boot || !tt.renewed && nextLife != life ||
			nextBoot < nextLife || !second.Mine(nextBoot) || second.Mine(boot) {
			t.Errorf("%s: renewed %v, %d and %d after %d and %d", name, renewed, nextLife, nextBoot, life, boot)
		}
		if same, known := second.Continues(tt.store); !same || !known {
			t.Errorf("%s: the incarnation belongs to another store than %s", name, tt.store)
		}
		if err := second.Renew(nil, nextBoot+1e6); err != nil {
			t.Fatal(err)
		}
		if thirdLife, thirdBoot := second.Life(); thirdLife != nextBoot+1e6+1 || thirdBoot <= thirdLife ||
			!second.Mine(thirdBoot) || !second.Mine(nextBoot) {
			t.Errorf("%s: renewed to %d, %d above %d", name, thirdLife, thirdBoot, nextBoot+1e6)
		}
	}
	s, err := OpenState(&Options{Dir: t.TempDir(), Identity: newIdentityOf(t),
		Now: func() time.Time { return time.Unix(0, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, known := s.Continues(""); known {
		t.Error("a node that never ran has an incarnation")
	}
	if _, err := s.Begin(nil, false); err != nil {
		t.Fatal(err)
	}
	if life, _ := s.Life(); life != 1 {
		t.Errorf("under a clock at 1970, incarnation %d, want 1", life)
	}
}
