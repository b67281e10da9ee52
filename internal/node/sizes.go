package node

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/units"
)

// checkSizes returns an error unless the first generations of the books fit into the memory of the
// machine, in bytes, 0 if unknown, and two of them into the memory of their book. A process that
// exhausts the memory is killed.
func checkSizes(cfg *config.Config, memory uint64) error {
	used := uint64(0)
	for _, b := range []struct {
		name     string
		capacity int64
		err      float64
		bound    int64
		size     func(engine.BookOptions) (uint64, error)
		opts     engine.BookOptions
	}{
		{"tally", cfg.Tally.Capacity, cfg.Tally.Error, cfg.Tally.Memory, engine.TallyBytes, tallyOf(cfg)},
		{"blocklist", cfg.Blocklist.Capacity, cfg.Blocklist.Error, cfg.Blocklist.Memory, engine.BlocklistBytes,
			blocklistOf(cfg)},
	} {
		size, err := b.size(b.opts)
		if err != nil {
			return &config.Error{Key: b.name + ".capacity", Detail: err.Error()}
		}
		needs := fmt.Sprintf("%d signatures at error rate %g need %s a generation", b.capacity, b.err, units.ByteSize(size))
		if used += size; memory > 0 && used > memory {
			return &config.Error{Key: b.name + ".capacity",
				Detail: fmt.Sprintf("%s, and this machine has %s of memory", needs, units.ByteSize(memory))}
		}
		if b.bound > 0 && 2*size > uint64(b.bound) {
			return &config.Error{Key: b.name + ".memory_bytes",
				Detail: fmt.Sprintf("%s, and two must fit into %s", needs, units.ByteSize(uint64(b.bound)))}
		}
	}
	return nil
}

// bookMemory returns the memory bound, in bytes, of a book with a first generation of first bytes,
// on a machine with machine bytes of memory, 0 if unknown. It is the configured value, or a quarter
// of the machine's memory, or no bound.
func bookMemory(set int64, first, machine uint64) uint64 {
	switch {
	case set > 0:
		return uint64(set)
	case machine == 0:
		return 0
	}
	return max(machine/4, 2*first)
}

// booksOf returns the books of a configuration that checkSizes has accepted, on a machine with that
// much memory.
func booksOf(cfg *config.Config, machine uint64) (tally, block engine.BookOptions, err error) {
	tally, block = tallyOf(cfg), blocklistOf(cfg)
	first, err := engine.TallyBytes(tally)
	if err != nil {
		return tally, block, err
	}
	tally.Memory = bookMemory(cfg.Tally.Memory, first, machine)
	if first, err = engine.BlocklistBytes(block); err != nil {
		return tally, block, err
	}
	block.Memory = bookMemory(cfg.Blocklist.Memory, first, machine)
	return tally, block, nil
}

// leastMessages is the least memory for messages that the doors get by default.
const leastMessages = 64 << 20

// messageMemory returns how much memory, in bytes, the messages of all doors may take: the
// configured value, or an eighth of the machine's memory. machine is 0 if that is unknown.
func messageMemory(set int64, machine uint64) int64 {
	switch {
	case set > 0:
		return set
	case machine == 0:
		return 4 * leastMessages
	}
	return int64(max(machine/8, leastMessages))
}

// LimitMemory makes the garbage collector keep this process below nine tenths of the available
// memory, unless $GOMEMLIMIT is set. It returns the limit in bytes; 0 for none.
func LimitMemory() int64 {
	machine := machineMemory()
	if os.Getenv("GOMEMLIMIT") != "" || machine == 0 || machine > math.MaxInt64 {
		return 0
	}
	limit := int64(machine / 10 * 9)
	debug.SetMemoryLimit(limit)
	return limit
}

const (
	// leastGarbage is how much memory without use may wait for the garbage collector in any case, in bytes.
	leastGarbage = 8 << 20
	collectEvery = 10 * time.Second
)

// garbagePercent returns the share of a heap's live bytes, in percent, that may be used anew before the garbage
// collector runs: as much as it has to read, and at least leastGarbage. It does not read arrays.
func garbagePercent(live, scanned uint64) int {
	return int(min(100, max(1, 100*max(scanned, leastGarbage)/max(live, 1))))
}

// LimitGarbage keeps the garbage of this process in proportion to its other objects until ctx ends, unless $GOGC is
// set.
// By default, the garbage of a node with large arrays may be as large as these.
func LimitGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for last := 100; ; {
		metrics.Read(samples)
		if samples[0].Value.Kind() == metrics.KindUint64 && samples[1].Value.Kind() == metrics.KindUint64 {
			percent := garbagePercent(samples[0].Value.Uint64(), samples[1].Value.Uint64())
			if percent != last {
				debug.SetGCPercent(percent)
				last = percent
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sizes returns the sizes that a node with this configuration needs for steady use. Books that are
// bounded by the machine's memory are planned without a bound.
func Sizes(cfg *config.Config, of admin.SizeQuestion) (admin.Sizes, error) {
	tally, block := tallyOf(cfg), blocklistOf(cfg)
	tally.Memory, block.Memory = uint64(max(0, cfg.Tally.Memory)), uint64(max(0, cfg.Blocklist.Memory))
	if of.CountError != 0 {
		tally.Error = of.CountError
	}
	if of.ListError != 0 {
		block.Error = of.ListError
	}
	if of.TallyKeep != 0 {
		tally.Keep = of.TallyKeep
	}
	if of.BlocklistKeep != 0 {
		block.Keep = of.BlocklistKeep
	}
	use := engine.Use{Signatures: of.Signatures, Listed: of.Signatures / 100}
	if of.Listed != nil {
		use.Listed = *of.Listed
	}
	p, err := engine.PlanFor(engine.Options{Tally: tally, Block: block, Threshold: cfg.Tally.Threshold}, use)
	if err != nil {
		return admin.Sizes{}, err
	}
	sizes := admin.Sizes{
		Tally: bookSizes(p.Tally), Blocklist: bookSizes(p.Blocklist),
		Memory: p.Memory, Disk: p.Disk, Peer: admin.PeerSizes{Least: p.PeerLow, Most: p.PeerHigh},
	}
	sizes.Tally.CountsWrong, sizes.Tally.BulkWrong, sizes.Blocklist.Hidden = p.Tally.Wrong, p.Tally.Bulk,
		p.Blocklist.Hidden
	return sizes, nil
}

func bookSizes(b engine.BookPlan) admin.BookSizes {
	return admin.BookSizes{
		Generation: config.Duration(b.Generation).String(), Keep: b.Keep, Signatures: b.Signatures, Capacity: b.Capacity,
		Array: b.Array, All: b.All, Unseen: b.Unseen,
	}
}
