package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// TestDoors measures how long reports of different messages wait for one another at the one writer. Eight
// doors with eight clients each report whole mails as fast as they can, and then at fixed rates. It runs with
// BULKHEAD_MEASURE set; with -cpuprofile, the
// share of Engine.turn is the writer's.
func TestDoors(t *testing.T) {
	if os.Getenv("BULKHEAD_MEASURE") == "" {
		t.Skip("a measurement: set BULKHEAD_MEASURE to run it")
	}
	st, err := store.Open(filepath.Join(t.TempDir(), "data"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	e, err := Open(context.Background(), small(Options{Store: st,
		Tally: BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: 2_000_000, Error: 1e-3},
		Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: 2, Capacity: 200_000, Error: 1e-6}}))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	var next atomic.Int64
	mail := func(vote bulkhead.Vote) bulkhead.Report {
		n := int(next.Add(1))
		r := bulkhead.Report{Vote: vote}
		for i := range 2 {
			r.Signatures = append(r.Signatures, sig(bulkhead.Exact, n*40+i))
		}
		for i := range 21 {
			r.Signatures = append(r.Signatures, sig(bulkhead.Near, n*40+i))
		}
		for i := range 6 {
			r.Signatures = append(r.Signatures, bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("l%d-%d.example", n, i)))
		}
		r.Signatures = append(r.Signatures, sig(bulkhead.Contact, n*40))
		return r
	}
	// run reports with a number of clients for a time, together at most rate times a second (0: no limit).
	run := func(name string, vote bulkhead.Vote, clients int, rate float64, during time.Duration) {
		var mu sync.Mutex
		var waits []time.Duration
		var wg sync.WaitGroup
		before, began := spent(t), time.Now()
		for c := range clients {
			wg.Go(func() {
				var mine []time.Duration
				pause := time.Duration(0)
				if rate > 0 {
					pause = time.Duration(float64(clients) / rate * float64(time.Second))
				}
				due := began.Add(pause * time.Duration(c) / time.Duration(clients))
				for time.Since(began) < during {
					if pause > 0 {
						<-time.After(time.Until(due))
					} else {
						due = time.Now()
					}
					if _, err := e.Report(context.Background(), mail(vote)); err != nil {
						t.Error(err)
						return
					}
					mine = append(mine, time.Since(due))
					due = due.Add(pause)
				}
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, mine...)
			})
		}
		wg.Wait()
		took := time.Since(began)
		slices.Sort(waits)
		t.Logf("%s, %d clients, rate %.0f: %.0f a second, wait p50 %v p99 %v, %.0f us of processor each", name, clients, rate,
			float64(len(waits))/took.Seconds(), waits[len(waits)/2].Round(time.Microsecond),
			waits[len(waits)*99/100].Round(time.Microsecond), float64((spent(t)-before).Microseconds())/float64(len(waits)))
	}
	const during = 2 * time.Second
	t.Run("sightings", func(*testing.T) { run("sightings", bulkhead.Sighting, 64, 0, during) })
	t.Run("votes", func(*testing.T) { run("votes", bulkhead.Spam, 64, 0, during) })
	t.Run("rates", func(*testing.T) {
		for _, rate := range []float64{500, 2000} {
			run("sightings, one door", bulkhead.Sighting, 8, rate, during)
			run("sightings, eight doors", bulkhead.Sighting, 64, rate, during)
		}
	})
}

// spent returns the processor time that this process has used.
func spent(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
