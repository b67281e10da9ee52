package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// A document is everything that docs/performance.md shows.
type document struct {
	member, count, memory []result
	merge                 []mergeResult
}

func (d *document) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, intro, time.Now().UTC().Format("2006-01-02"), cpuName(), runtime.NumCPU(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH, loadAverage(), rounds)
	b.WriteString("\n## Membership\n\n")
	fmt.Fprintf(&b, memberIntro, bitsPerKey)
	table(&b, d.member, false)
	b.WriteString("\n## Counting\n\n" + countIntro)
	table(&b, d.count, true)
	b.WriteString("\n## Memory of ten million counted signatures\n\n" + memoryIntro)
	memoryTable(&b, d.memory)
	b.WriteString("\n## Merging\n\n" + mergeIntro)
	mergeTable(&b, d.merge)
	b.WriteString(reading)
	return b.String()
}

const intro = `# Performance of the production arrays

Regenerate with ` + "`make bench-peers`" + ` (this file is its output).

Measured on %s: %s, %d processors, %s %s/%s. Load average before the run: %s.
Other programs shared the machine, so **compare rows within a table, not with figures of another machine**. Times are
nanoseconds of processor time per key, one thread: the median of %d rounds and, as benchstat does,
the range that holds the true median with 95 %% confidence. The rounds of inserts into the largest
are a million keys each. The numbers above the columns are the keys of one call. "2 threads" is
wall-clock time, with two goroutines looking up at once, in calls of 256. Keys are 16 random bytes;
every row ran in its own process. "x" is the time relative to the first row of the same size. Count
distribution: a share c^-1.2 of the keys is counted c times or more.
`

const memberIntro = `Every filter has %d bits a key and 8 hashes. Ghosts: share of keys never inserted that are found.

`

const countIntro = `Wrong: share of keys whose count is too high (single reports in random
order up to a million keys; above, one weighted insert a key). Low: share of keys whose count is too
low. Ghosts: share of keys never inserted with a count above 0.

`

const memoryIntro = `Live heap after garbage collection, and growth of the process's resident
memory, both per key, of the whole structure. A map's cost depends on when its tables last doubled,
hence three sizes.

`

const mergeIntro = `Bytes of array per second, one thread, arrays sized for ten million signatures.

`

const reading = `
## Reading these tables

- At ten thousand keys a map is about as fast as any filter. Filters pay off by their size and because they merge.
- Batches overlap cache misses, which is most of the difference at twenty million keys. Single calls
  overlap them only as far as the processor looks ahead.
- In calls of 1 and 3 keys the split block filter is ahead, by its assembly and because it needs no
  preparation of a batch; binary fuse filters are ahead, too, and cannot grow.
- A node asks no single questions: a check of one signature looks it up in the arrays of all generations
  together. Look-ups of membership take 16 % of a check of 21 signatures, so there is no assembly for them.
- A single look-up in any table larger than the caches costs at least one dependent access to that
  much memory. It is listed below each table.
- Batches are the primary calls. A single insert takes a lock, reports whether the key was there,
  and counts it for its page. It stores word by word so that other cores can look up at the same
  time; libraries that only OR are faster. parquet-go's assembly inserts faster at all sizes.
- In counting ten thousand keys, a map looks up faster, and count-min, with six times the memory
  and wrong counts, inserts about as fast.
- One keyed hash, SipHash-2-4-128, costs more than the look-up that follows. It is computed once per
  signature, for all arrays.
- A single count in a big array is about as fast as a single look-up in a map. It takes a quarter to
  a seventh of the memory; batches are several times faster.
- Merging counting arrays with hot keys is bound by the overflow tables, which are rebuilt page by
  page: here the array is merged into itself, so that a third of its cells become hot. The row
  without counts above 14 is the packed addition alone.
- The fingerprint table is smaller than the counting array, with far fewer wrong counts. But it does
  not merge by cell, cannot be sent as small differences, overflows where a filter degrades, and
  stops at 255. bulkhead needs merging; for exact counts on one machine, use the table.
- With a hundred million keys, only the rows of the fastest rivals are measured.
- koykov/pbtk's conservative-update sketch is missing, because its module could not be fetched.
- The doors are measured beside the servers that they replace: [DCC](protocols/dcc.md) beside dccd,
  [fuzzy hashes](protocols/fuzzy.md) beside rspamd with SQLite and Redis, [Pyzor](protocols/pyzor.md)
  beside pyzord, [policy](protocols/policy.md) beside postfwd2, [DNS](protocols/dnsbl.md) beside rbldnsd.
`

func table(b *strings.Builder, rows []result, counts bool) {
	head := "| keys | structure | insert 1 | insert 256 | hit 1 | x | hit 3 | x | hit 21 | x | hit 256 | x | miss 256 " +
		"| 2 threads | heap B/key | ghosts |"
	if counts {
		head += " wrong | low |"
	}
	b.WriteString(head + "\n|" + strings.Repeat("---|", strings.Count(head, "|")-1) + "\n")
	var first result
	for i, r := range rows {
		if i == 0 || r.N != first.N {
			first = r
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |", count(r.N), r.Subject, r.Insert[0], r.Insert[1])
		for i := range r.Hit {
			fmt.Fprintf(b, " %s | %.1f |", r.Hit[i], r.Hit[i].Median/first.Hit[i].Median)
		}
		fmt.Fprintf(b, " %s | %s | %.1f | %s |", r.Miss, r.Hit2, r.Heap, share(r.Ghost))
		if counts {
			wrong := share(r.Wrong)
			if r.Wrong < 0 {
				wrong = "-"
			}
			fmt.Fprintf(b, " %s | %s |", wrong, share(r.Under))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	for _, r := range rows {
		if r.Access > 0 {
			fmt.Fprintf(b, "- %s keys: one dependent access to %.1f MB takes %.0f ns by the clock.\n", count(r.N),
				r.Heap*float64(r.N)/1e6, r.Access)
		}
	}
	for _, r := range rows {
		if r.N == rows[0].N && r.Note != "" {
			fmt.Fprintf(b, "- %s: %s.\n", r.Subject, r.Note)
		}
	}
}

func memoryTable(b *strings.Builder, rows []result) {
	b.WriteString("| keys | structure | heap B/key | x | resident B/key | x | wrong |\n|---|---|---|---|---|---|---|\n")
	var first result
	for i, r := range rows {
		if i == 0 || r.N != first.N {
			first = r
		}
		fmt.Fprintf(b, "| %s | %s | %.2f | %.1f | %.2f | %.1f | %s |\n", count(r.N), r.Subject,
			r.Heap, r.Heap/first.Heap, r.Resident, r.Resident/first.Resident, share(r.Wrong))
	}
}

func mergeTable(b *strings.Builder, rows []mergeResult) {
	b.WriteString("| operation | MB | GB/s | ± | share of copy |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(b, "| %s | %.0f | %.2f | %.0f%% | %.0f %% |\n", r.What, float64(r.Bytes)/1e6, r.speed()/1e9, r.Took.Range,
			100*r.speed()/rows[0].speed())
	}
}

// String returns "12.3 ±4%", or "-" for what was not measured.
func (t timing) String() string {
	if t.Median == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f ±%.0f%%", t.Median, t.Range)
}

func count(n int) string {
	switch {
	case n%1_000_000 == 0:
		return fmt.Sprintf("%de6", n/1_000_000)
	case n%1000 == 0:
		return fmt.Sprintf("%de3", n/1000)
	}
	return fmt.Sprint(n)
}

func share(p float64) string {
	if p == 0 {
		return "0"
	}
	return fmt.Sprintf("%.1e", p)
}

// cpuName returns the processor's name, as Linux reports it.
func cpuName() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for l := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "unknown processor"
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	if f := strings.Fields(string(b)); len(f) > 0 {
		return f[0]
	}
	return "unknown"
}
