// Package web serves the pages of a node, in a light and a dark style. They load nothing from other
// sites and work without scripts; one small script keeps the first page up to date.
//
//	site := web.New(source, api)
//	http.Handle("/", site)
package web

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// A Source describes the node. It is called for each request of a page. Its method may be called
// concurrently.
type Source interface {
	Status(ctx context.Context) Status
}

// Status is the state of the node that the pages show. Accounts, peers, lists and rate limits come
// from the API.
type Status struct {
	Name, Version string
	Now, Started  time.Time
	Durability    string // "always" or "relaxed"
	ReadOnly      string // reason for refusing reports, "" if they are accepted
	Mature        bool   // the node knows its usual senders, so links and contacts may decide
	Threshold     uint32 // count at which a message is bulk
	Accounts      int
	Doubts        int           // parts of the store that are in doubt since a salvage
	Missing       []string      // parts of the data folder missing at the start
	Held          *admin.Ageing // ageing that an implausible clock holds up; nil: generations age
	Standby       *admin.Standby
	Journal       *admin.Journal
	Free, Disk    uint64       // available and total bytes of the file system; 0: unknown
	Peers         []admin.Peer // nodes with which this node shares
	Doors         []Door
	Counters      []Counter
	Books         []Book
}

// A Door is one open front door: its name, its address, its clients, and its counters.
type Door struct {
	Name, Address, Serves string
	Rate                  float64 // answers per second over the last minutes
	Slowest               float64 // upper bound for the time of 99 % of them, seconds; 0: there were none
	Answers, Faults       uint64  // since the start; Faults are refused or failed requests
}

// A Counter is a number of events since the node started.
type Counter struct {
	Name  string
	Value uint64
}

// A Book is the tally or the blocklist, with the question that it answers.
type Book struct {
	Name, Question string
	Bytes          uint64
	Generations    []Generation // newest first
}

// A Generation is one time slice of a book.
type Generation struct {
	Start, End time.Time
	Capacity   uint64 // number of signatures for which it is sized
	Arrays     []Array
}

// An Array is one filter of a generation.
type Array struct {
	Name  string
	Holds string // in words
	Bytes uint64
	Keys  uint64
	Fill  float64 // share of cells or bits in use, 0 to 1
	Ghost float64 // probability of finding an absent key
	Wrong float64 // share of counts that are too high; 0 for bits
	Bulk  float64 // probability that an absent key shows the threshold; 0 for bits
	Bits  bool    // a bit array: Wrong and Bulk mean nothing
}

// count formats n with thousands separated by thin spaces.
func count(n uint64) string {
	s := fmt.Sprint(n)
	var b strings.Builder
	for i, c := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteRune('\u202f')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func size(n uint64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
}

func percent(x float64) string {
	switch {
	case x == 0:
		return "0 %"
	case x < 0.001:
		return "< 0.1 %"
	case x < 0.1:
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	return fmt.Sprintf("%.0f %%", 100*x)
}

// chance formats a probability as "1 in N".
func chance(p float64) string {
	switch {
	case math.IsNaN(p) || p < 0:
		return "unknown"
	case p == 0:
		return "none"
	case p < 1e-18:
		return "< 1 in 10¹⁸"
	case p > 0.5:
		return percent(p)
	}
	n := 1 / p
	if n < 1e6 {
		if n >= 100 { // an estimate has no more than two digits
			scale := math.Pow(10, math.Floor(math.Log10(n))-1)
			n = math.Round(n/scale) * scale
		}
		return "1 in " + count(uint64(math.Round(n)))
	}
	exp := math.Floor(math.Log10(n))
	return fmt.Sprintf("1 in %.1f · 10", n/math.Pow(10, exp)) + superscript(int(exp))
}

func superscript(n int) string {
	digits := []rune("⁰¹²³⁴⁵⁶⁷⁸⁹")
	var b strings.Builder
	for _, c := range fmt.Sprint(n) {
		b.WriteRune(digits[c-'0'])
	}
	return b.String()
}

func date(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	if t.Hour() == 0 && t.Minute() == 0 {
		return t.Format("2 Jan 2006")
	}
	return t.Format("2 Jan 2006 15:04")
}

// age formats the time from a to b in its two largest units.
func age(a, b time.Time) string {
	d := b.Sub(a)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// bar returns the width of a bar of 100 units: 0, or enough to be visible.
func bar(x float64) string {
	if x <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f", math.Min(100, math.Max(0.8, 100*x)))
}
