//go:build linux

package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// nodeKeys is the number of keys in the tally of these benchmarks' node, in seven days. Its
// blocklist has a million keys of votes in each of eight weeks, and a matching number of names and
// listings.
const nodeKeys = 10_000_000

// ofNode returns an engine whose arrays hold that.
func ofNode(b *testing.B, c *clock) *Engine {
	const days, weeks, votes = 7, 8, 1_000_000
	e := open(b, Options{
		Now:   c.Now,
		Tally: BookOptions{Generation: 24 * time.Hour, Keep: days, Capacity: nodeKeys / days, Error: 1e-3},
		Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: weeks, Capacity: votes / 4, Error: 1e-5},
		Votes: 2 * votes, Names: votes / 2,
	})
	at := uint64(0)
	fill := func(n int, put func(keys []filter.Key, ones []uint32)) {
		const batch = 1 << 12
		keys, ones := make([]filter.Key, batch), make([]uint32, batch)
		for ; n > 0; n -= batch {
			for i := range keys {
				var number [8]byte
				at++
				binary.LittleEndian.PutUint64(number[:], at)
				keys[i], ones[i] = testSecret.Key(number[:]), 1
			}
			put(keys, ones)
		}
	}
	// The generations are filled one after the other, because each is sized by the use of those before.
	var open [2]uint64
	for n := range weeks + days {
		report(b, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 0)}})
		v := e.current.View()
		if g := v.Tally.Live[0]; g.Start != open[0] {
			open[0] = g.Start
			fill(nodeKeys/days, func(keys []filter.Key, ones []uint32) {
				g.Counts.AddBatch(0, keys, ones, nil)
				g.Unique.SetBatch(0, keys[:len(keys)/4], nil)
			})
		}
		if g := v.Block.Live[0]; g.Start != open[1] {
			open[1] = g.Start
			fill(votes, func(keys []filter.Key, ones []uint32) {
				g.Weights.AddBatch(0, keys, ones, nil)
				g.Votes.SetBatch(0, keys, nil)
				g.Names.AddBatch(0, keys[:len(keys)/4], ones[:len(keys)/4], nil)
				g.Spam.SetBatch(0, keys[:len(keys)/8], nil)
				g.Revoked.SetBatch(0, keys[:len(keys)/64], nil)
			})
		}
		if n < weeks {
			c.Advance(7 * 24 * time.Hour)
		} else {
			c.Advance(24 * time.Hour)
		}
	}
	report(b, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 0)}})
	touchAll(e) // as the arrays of a generation that was made ahead of time
	known, v := uint64(0), e.current.View()
	for _, g := range v.Tally.Live {
		known += g.Counts.Keys()
	}
	if known < nodeKeys*80/100 || len(v.Block.Live) < weeks {
		b.Fatalf("the tally has %d keys, want %d; %d weeks of votes", known, nodeKeys, len(v.Block.Live))
	}
	return e
}

// nodeMessage is a message of 40 signatures, of all facets.
func nodeMessage(n int) (sigs []bulkhead.Signature) {
	sigs = append(sigs, sig(bulkhead.Exact, n))
	for i := range 20 {
		sigs = append(sigs, sig(bulkhead.Near, n*40+i))
	}
	sigs = append(sigs,
		bulkhead.NamedSignature(bulkhead.Sender, fmt.Sprintf("s%d.example", n)),
		bulkhead.NamedSignature(bulkhead.Sender, fmt.Sprintf("a@s%d.example", n)),
		bulkhead.NamedSignature(bulkhead.Network, "192.0.2.0/24"))
	for i := range 9 {
		sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("l%d-%d.example", n, i)))
	}
	for i := range 7 {
		sigs = append(sigs, sig(bulkhead.Contact, n*40+i))
	}
	return sigs
}

// processor returns the processor time that this thread has used. The goroutine must be
// locked to it.
func processor(b testing.TB) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Skip(err)
	}
	return time.Duration(t.Nano())
}

// BenchmarkNode is what a node does at nodeKeys keys: checks of messages that it has not seen, and
// votes on them, of all facets, by a stranger; and deliveries to one recipient, which the reporter's goroutine
// judges. It measures the processor time that the thread of a check takes, and the writer's for a vote: its
// keys, decisions, entry and changes of the arrays. The open generation has room for 3000 votes, so each row
// is measured in a process of its own:
//
//	for row in check vote delivery; do
//		go test ./internal/engine -run xxx -bench "Node/$row\$" -cpu 1 -benchtime 3000x; done
func BenchmarkNode(b *testing.B) {
	c := newClock()
	e := ofNode(b, c)
	b.Run("check", func(b *testing.B) {
		queries, verdicts := []bulkhead.Query{{Terse: true}}, make([]bulkhead.Verdict, 1)
		ofNew(b, func(message []bulkhead.Signature) {
			queries[0].Signatures = message
			if err := e.CheckBatch(context.Background(), queries, verdicts); err != nil {
				b.Fatal(err)
			}
		})
	})
	for _, row := range []struct {
		name   string
		report bulkhead.Report
	}{
		{"vote", bulkhead.Report{Vote: bulkhead.Spam}},
		{"delivery", bulkhead.Report{Recipients: []string{"ana@here.example"}}},
	} {
		b.Run(row.name, func(b *testing.B) {
			err := e.queue.inTurn(context.Background(), func() {
				ofNew(b, func(message []bulkhead.Signature) { e.reportInTurn(b, row.report, message) })
			})
			if err != nil {
				b.Fatal(err)
			}
			if got := e.counters.reports.Load(); got < uint64(b.N) {
				b.Fatalf("%d reports, want at least %d", got, b.N)
			}
		})
	}
}

// reportInTurn does what Report does, in the writer's goroutine.
func (e *Engine) reportInTurn(b *testing.B, r bulkhead.Report, message []bulkhead.Signature) {
	r.Signatures = message
	a, err := e.prepare(&r)
	if err != nil {
		b.Error(err)
		return
	}
	e.addAll([]*request{{addition: a, done: make(chan struct{})}})
	e.recycle(a)
}

// BenchmarkVoters is three votes on each message by accounts, at nodeKeys keys: the first one, a second voter's, and
// the first voter's change of mind. It measures the writer's processor time of each call, and reports the quarter of
// the calls that other work on the machine disturbs least. The open generation has room for 3000 messages.
//
//	go test ./internal/engine -run xxx -bench Voters -cpu 1 -benchtime 3000x
func BenchmarkVoters(b *testing.B) {
	c := newClock()
	e := ofNode(b, c)
	for _, name := range []string{"ana", "ben"} {
		put(b, e, name, trust.Trusted, 1, netip.Addr{})
	}
	votes := []bulkhead.Report{by("ana", bulkhead.Spam), by("ben", bulkhead.Spam), by("ana", bulkhead.Ham)}
	took := make([][]time.Duration, len(votes))
	err := e.queue.inTurn(context.Background(), func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		messages := make([][]bulkhead.Signature, 64)
		for done := 0; done < b.N; done += len(messages) {
			for i := range messages {
				messages[i] = nodeMessage(int(messageNumber.Add(1)))
			}
			for n, vote := range votes {
				for _, m := range messages {
					began := processor(b)
					e.reportInTurn(b, vote, m)
					took[n] = append(took[n], processor(b)-began)
				}
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	for n, name := range []string{"first", "second", "change"} {
		slices.Sort(took[n])
		b.ReportMetric(float64(took[n][len(took[n])/4].Nanoseconds())/1e3, name+"-us")
	}
}

// BenchmarkOpening is the opening of a generation that was made ahead of time, at nodeKeys
// keys: the longest time of the writer's processor that it held a vote, and what each of the
// first votes after it took.
func BenchmarkOpening(b *testing.B) {
	const votes = 256
	c := newClock()
	e := ofNode(b, c)
	longest, first := time.Duration(0), time.Duration(0)
	for n := 0; b.Loop(); n++ {
		before, now := e.current.View(), c.Now()
		c.Advance(now.Truncate(24 * time.Hour).Add(24*time.Hour - 5*time.Minute).Sub(now))
		report(b, e, bulkhead.Report{Signatures: nodeMessage(2_000_000 + (votes+1)*n), Vote: bulkhead.Spam})
		time.Sleep(3 * time.Second) // while the next one is made beside
		if err := e.queue.inTurn(context.Background(), func() {
			c.Advance(10 * time.Minute)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			began := processor(b)
			if err := e.rotate(); err != nil {
				b.Error(err)
			}
			longest = max(longest, processor(b)-began)
			for i := range votes {
				message := nodeMessage(2_000_001 + (votes+1)*n + i)
				began := processor(b)
				e.reportInTurn(b, bulkhead.Report{Vote: bulkhead.Spam}, message)
				first += processor(b) - began
			}
		}); err != nil {
			b.Fatal(err)
		}
		if e.current.View().Tally.Live[0].Start == before.Tally.Live[0].Start {
			b.Fatal("no generation was opened")
		}
	}
	b.ReportMetric(float64(longest.Microseconds())/1e3, "longest-ms")
	b.ReportMetric(float64(first.Microseconds())/float64(b.N*votes), "first-us/vote")
}

// ofNew calls each for messages that have nothing in common, and reports the processor time
// that a call takes: of all, of half of them at most, and of the tenth that other work on the
// machine disturbs least.
func ofNew(b *testing.B, each func(message []bulkhead.Signature)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	var spent time.Duration
	var parts []float64 // of 128 calls each, what a call took
	for done := 0; done < b.N; {
		b.StopTimer()
		messages := make([][]bulkhead.Signature, min(b.N-done, 4096))
		for i := range messages {
			messages[i] = nodeMessage(int(messageNumber.Add(1)))
		}
		b.StartTimer()
		for part := range slices.Chunk(messages, 128) {
			began := processor(b)
			for _, m := range part {
				each(m)
			}
			took := processor(b) - began
			parts, spent = append(parts, float64(took.Nanoseconds())/1e3/float64(len(part))), spent+took
		}
		done += len(messages)
	}
	slices.Sort(parts)
	b.ReportMetric(float64(spent.Nanoseconds())/1e3/float64(b.N), "cpu-us/op")
	b.ReportMetric(parts[len(parts)/2], "median-us/op")
	b.ReportMetric(parts[len(parts)/10], "tenth-us/op")
}

var messageNumber atomic.Int64

// BenchmarkFlat looks 21 signatures up, and counts them, in a tally of seven days with a million keys, and in one
// with a hundred million: the processor time that the thread of a look-up takes, and the writer's for a count.
func BenchmarkFlat(b *testing.B) {
	const days = 7
	for _, keys := range []int{1e6, 1e8} {
		c := newClock()
		e := open(b, Options{Now: c.Now, Tally: BookOptions{Generation: 24 * time.Hour, Keep: days,
			Capacity: uint64(keys) / days, Error: 1e-3}})
		for day := range days {
			report(b, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 0)}})
			if day < days-1 {
				c.Advance(24 * time.Hour)
			}
		}
		for day, g := range e.current.View().Tally.Live {
			countKeys(g, day*keys/days, keys/days)
		}
		ones := slices.Repeat([]uint32{1}, 21)
		b.Run(fmt.Sprintf("look/%.0e", float64(keys)), func(b *testing.B) {
			looks := make([]bulkhead.Look, len(ones))
			ofNew(b, func(message []bulkhead.Signature) {
				if err := e.Look(b.Context(), message[:len(ones)], looks, bulkhead.Counts); err != nil {
					b.Fatal(err)
				}
			})
		})
		b.Run(fmt.Sprintf("count/%.0e", float64(keys)), func(b *testing.B) {
			err := e.queue.inTurn(b.Context(), func() {
				ofNew(b, func(message []bulkhead.Signature) {
					secrets := e.current.Books().Secrets
					a := &countAddition{secrets, e.counts(secrets, message[:len(ones)], ones)}
					e.addAll([]*request{{addition: a, done: make(chan struct{})}})
				})
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// touchAll makes the system allocate the memory of all arrays.
func touchAll(e *Engine) {
	e.current.Books().Each(func(array any) {
		if a, ok := array.(interface{ Touch() }); ok {
			a.Touch()
		}
	})
}
