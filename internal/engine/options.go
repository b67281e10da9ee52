package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// BookOptions is the shape of one book.
type BookOptions = book.Options

// Options are the settings of an engine. The zero value of an optional field means its
// default.
type Options struct {
	Secret filter.Secret // the network's key; all nodes of one network share it
	// Past is the secrets that generations and the journal may have been made with
	// before, newest first. Generations of [MaxSecrets] at most may live.
	Past []filter.Secret
	// Former is those of Past that the network of Secret had itself: its other members
	// have them, too, and the arrays that were made with them are shared. None of the
	// others comes before them.
	Former []filter.Secret
	Store  *store.Store // nil: nothing is durable, for tests and simulations
	Tally  BookOptions
	Block  BookOptions
	// Reports is how many keys of sightings a generation of the tally is sized for,
	// and the least for any: one for each report with an ID, two for each recipient of
	// a delivery, one for each signature of a stranger's. 0 means a quarter of
	// Tally.Capacity.
	Reports uint64
	// Votes is how many keys of votes a generation of the blocklist is sized for, and
	// the least for any: two for each vote of a person, which sightings are not, on
	// one signature. 0 means Block.Capacity.
	Votes uint64
	// Names is how many named facets (links, senders, networks, contacts) a generation
	// of the blocklist is sized to tell apart, and the least for any. 0 means a fifth
	// of Block.Capacity.
	Names uint64
	// RevocationFirst looks up revocations before spam: better if most mail that is
	// checked was reported once.
	RevocationFirst bool
	Threshold       uint32 // count from which a message is bulk; 0 means 20
	// NearMatch is how many bulkhead/near bands must agree before they speak
	// for the message; 0 means DefaultNearMatch.
	NearMatch int
	Trust     trust.Policy // the zero Policy means trust.DefaultPolicy
	Whitelist *Whitelist   // nil: empty
	// NeverList is signatures that are never counted or listed: the sums of
	// empty and trivial content.
	NeverList []bulkhead.Signature
	// CheckpointEvery is the longest time between two checkpoints; 0 means 15
	// minutes. CheckpointBytes is the journal size that starts one early; 0
	// means 256 MiB.
	CheckpointEvery time.Duration
	CheckpointBytes uint64
	// Refill gives what a damaged Store has lost; nil if nothing does.
	Refill *Refill
	// RemoteBytes bounds the memory of replicas; 0: no bound. See [Engine.Room].
	RemoteBytes uint64
	// Still neither opens nor drops generations, whatever the clock and the books say.
	// It is for changing accounts without knowing how long the node keeps its books;
	// reports go where they last went.
	Still bool
	// Exact holds everything in maps instead of filters: the oracle for replay and
	// tests. It takes no Store.
	Exact bool
	// MaxStep is how far the clock may be ahead of the newest record, or of the time that has
	// passed since, before the ageing of generations is held until [Engine.ConfirmClock]. See
	// [StepLimit]; 0: any time is taken as it is.
	MaxStep time.Duration
	// Uptime is the time since some moment by a clock that is never set; nil means since the
	// engine was opened.
	Uptime func() time.Duration
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // nil discards
}

// Defaults.
const (
	// DefaultThreshold is the count from which a message is bulk: the usual
	// threshold of DCC's users in Yan and Cho, section 4.
	DefaultThreshold = 20
	// DefaultNearMatch is how many near bands must agree, see signature.NearMatch.
	DefaultNearMatch = 2
	// MaxSignatures is the largest number of signatures in one query or report.
	MaxSignatures = 1024
)

// DefaultTally is a week of days, one million signatures each, with a count
// wrong for at most one in a thousand.
func DefaultTally() BookOptions {
	return BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 1_000_000, Error: 1e-3}
}

// DefaultBlocklist is eight weeks, a quarter million signatures each, with a
// wrong judgement for at most one unreported signature in 100,000.
func DefaultBlocklist() BookOptions {
	return BookOptions{Generation: 7 * 24 * time.Hour, Keep: 8, Capacity: 250_000, Error: 1e-5}
}

// TallyBytes returns the memory of the first generation of a tally without the
// tables of counts that outgrow their cells, or an error that wraps
// [filter.ErrGeometry]. It allocates nothing of it.
func TallyBytes(o BookOptions) (uint64, error) {
	return book.NewTally(o, leastReports(o), filter.Secret{}.ID(), false, nil).First()
}

// BlocklistBytes is [TallyBytes] of a blocklist.
func BlocklistBytes(o BookOptions) (uint64, error) {
	return book.NewBlocklist(o, leastVotes(o), leastNames(o), filter.Secret{}.ID(), false, nil).First()
}

// leastReports is the default of [Options].Reports.
func leastReports(tally BookOptions) uint64 { return max(1, tally.Capacity/4) }

// leastVotes is the default of [Options].Votes.
func leastVotes(block BookOptions) uint64 { return block.Capacity }

// leastNames is the default of [Options].Names.
func leastNames(block BookOptions) uint64 { return max(1, block.Capacity/5) }

// complete fills in defaults and checks every field.
func (o *Options) complete() error {
	if o.Tally == (BookOptions{}) {
		o.Tally = DefaultTally()
	}
	if o.Block == (BookOptions{}) {
		o.Block = DefaultBlocklist()
	}
	if err := o.Tally.Validate(); err != nil {
		return fmt.Errorf("engine: tally: %w", err)
	}
	if err := o.Block.Validate(); err != nil {
		return fmt.Errorf("engine: blocklist: %w", err)
	}
	if o.Trust == (trust.Policy{}) {
		o.Trust = trust.DefaultPolicy()
	}
	if err := o.Trust.Validate(); err != nil {
		return err
	}
	if o.Votes == 0 {
		o.Votes = leastVotes(o.Block)
	}
	if o.Names == 0 {
		o.Names = leastNames(o.Block)
	}
	if o.Reports == 0 {
		o.Reports = leastReports(o.Tally)
	}
	if o.Threshold == 0 {
		o.Threshold = DefaultThreshold
	}
	if o.NearMatch == 0 {
		o.NearMatch = DefaultNearMatch
	}
	if o.NearMatch < 1 || o.NearMatch > MaxSignatures {
		return fmt.Errorf("engine: near match of %d bands, want 1 to %d", o.NearMatch, MaxSignatures)
	}
	if o.CheckpointEvery == 0 {
		o.CheckpointEvery = 15 * time.Minute
	}
	if o.CheckpointBytes == 0 {
		o.CheckpointBytes = 256 << 20
	}
	if o.Exact && o.Store != nil {
		return fmt.Errorf("engine: an exact engine keeps nothing on disk and takes no store")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
