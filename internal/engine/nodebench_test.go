//go:build unix

package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
)

// nodeKeys is how many keys the node of these benchmarks knows, in seven days and eight
// weeks.
const nodeKeys = 10_000_000

// ofNode returns an engine whose arrays hold nodeKeys keys.
func ofNode(b *testing.B, c *clock) *Engine {
	const days, weeks = 7, 8
	e := open(b, Options{
		Now:   c.Now,
		Tally: BookOptions{Generation: 24 * time.Hour, Keep: days, Capacity: nodeKeys / days, Error: 1e-3},
		Block: BookOptions{Generation: 7 * 24 * time.Hour, Keep: weeks, Capacity: nodeKeys / weeks / 4, Error: 1e-6},
	})
	for range days * weeks {
		report(b, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 0)}})
		c.Advance(24 * time.Hour)
	}
	report(b, e, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, 0)}})
	v := e.view()
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
	for _, g := range v.tally.Live {
		fill(nodeKeys/days, func(keys []filter.Key, ones []uint32) { g.Counts.AddBatch(1, keys, ones, nil) })
	}
	for _, g := range v.block.Live {
		fill(nodeKeys/weeks/4, func(keys []filter.Key, ones []uint32) {
			g.Weights.AddBatch(1, keys, ones, nil)
			g.Votes.SetBatch(1, keys, nil)
		})
	}
	return e
}

// nodeMessage is a message of 40 signatures, of all facets.
func nodeMessage(n int) (sigs []bulkhead.Signature) {
	sigs = append(sigs, sig(bulkhead.Exact, n))
	for i := range 20 {
		sigs = append(sigs, sig(bulkhead.Near, n*40+i))
	}
	for i := range 12 {
		sigs = append(sigs, bulkhead.NamedSignature(bulkhead.Link, fmt.Sprintf("l%d-%d.example", n, i)))
	}
	for i := range 7 {
		sigs = append(sigs, sig(bulkhead.Contact, n*40+i))
	}
	return sigs
}

func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkNode is what a node does at nodeKeys keys, in processor time: checks of messages
// and votes on them, of all facets, and the votes in whose turn a generation is opened.
func BenchmarkNode(b *testing.B) {
	c := newClock()
	e := ofNode(b, c)
	queries, verdicts := []bulkhead.Query{{Terse: true}}, make([]bulkhead.Verdict, 1)
	measured := func(name string, each func(n int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n, began := 0, processor(b)
			for ; b.Loop(); n++ {
				each(n)
			}
			b.ReportMetric(float64((processor(b)-began).Microseconds())/float64(n), "cpu-us/op")
		})
	}
	var messages [4096][]bulkhead.Signature
	for n := range messages {
		messages[n] = nodeMessage(1000 + n)
	}
	measured("check", func(n int) {
		queries[0].Signatures = messages[n%len(messages)]
		if err := e.CheckBatch(context.Background(), queries, verdicts); err != nil {
			b.Fatal(err)
		}
	})
	measured("vote", func(n int) { // most on what nobody voted on
		report(b, e, bulkhead.Report{Signatures: messages[n%len(messages)], Vote: bulkhead.Spam})
	})
	b.Run("open", func(b *testing.B) {
		longest := time.Duration(0)
		for n := 0; b.Loop(); n++ {
			// Some minutes before it is due, the next generation is made.
			now := c.Now()
			c.Advance(now.Truncate(24 * time.Hour).Add(24*time.Hour - 5*time.Minute).Sub(now))
			report(b, e, bulkhead.Report{Signatures: nodeMessage(2_000_000 + 2*n), Vote: bulkhead.Spam})
			time.Sleep(300 * time.Millisecond) // while it is made beside
			c.Advance(10 * time.Minute)
			began := time.Now()
			report(b, e, bulkhead.Report{Signatures: nodeMessage(2_000_001 + 2*n), Vote: bulkhead.Spam})
			longest = max(longest, time.Since(began))
		}
		b.ReportMetric(float64(longest.Microseconds())/1e3, "longest-ms")
	})
}
