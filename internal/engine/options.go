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

// Options are the settings of an engine. The zero value of an optional field means its
// default.
type Options struct {
	Secret filter.Secret // the network's key; all nodes of one network share it
	// Past is the secrets that generations and the journal may have been made with before, newest
	// first. Live generations may be of at most [MaxSecrets] secrets.
	Past []filter.Secret
	// Former is the secrets in Past that the network of Secret had itself. Its other members also
	// have them, and the arrays that were made with them are shared. No other secret of Past comes
	// before them.
	Former []filter.Secret
	Store  *store.Store // nil: nothing is durable, for tests and simulations
	// Shared is the journal that the entries of Store are a copy of; nil: Store has the only journal. With it, an entry is
	// acknowledged once it is in Shared.
	Shared store.Shared
	// Term is, with Shared, the latest term that the node knows to be its own: it decides nothing once it finds a later
	// one in the journal. 0: the latest one of the journal at the start is its own.
	Term  uint64
	Tally BookOptions
	Block BookOptions
	// Reports is the number of keys of sightings that the first generation of the tally is sized
	// for. There is one key for each report with an ID; for each recipient of a delivery, one for
	// the text and one for each name; and one for each signature of a stranger's sighting. 0 means a
	// quarter of Tally.Capacity.
	Reports uint64
	// Votes is the number of keys of votes that the first generation of the blocklist is sized for.
	// There are two keys for each vote of a person on one signature; sightings are not votes. 0 means
	// Block.Capacity.
	Votes uint64
	// Names is the number of named facets (links, senders, networks, contacts) that the first
	// generation of the blocklist is sized to distinguish, and every other one at least. 0 means a
	// fifth of Block.Capacity.
	Names uint64
	// LearnBytes bounds the memory for words and style, in bytes; 0: nothing is learnt. See
	// internal/engine/learned.
	LearnBytes uint64
	// Teach prepares the engine to learn together with peers, see [Engine.Lessons]. The counts of
	// peers take up to LearnBytes more.
	Teach bool
	// LearnCondemns makes a message spam whose words and style alone are nearly certain to be spam.
	LearnCondemns bool
	// RevocationFirst looks up revocations before spam, which is faster if most checked mail was
	// reported at some time.
	RevocationFirst bool
	Threshold       uint32 // count from which a message is bulk; 0 means 20
	// NearMatch is the number of bulkhead/near bands that must agree to represent the message; 0
	// means DefaultNearMatch.
	NearMatch int
	// WantedLost is the number of wanted mails per 100,000 that the operator accepts to lose; nil means
	// the default, 2. See [verdict.StepOf].
	WantedLost *float64
	Trust      trust.Policy // the zero Policy means trust.DefaultPolicy
	Whitelist  *Whitelist   // nil: empty
	// NeverList is signatures that are never counted or listed: the sums of
	// empty and trivial content.
	NeverList []bulkhead.Signature
	// CheckpointEvery is the maximum time between two checkpoints; 0 means 15 minutes.
	// CheckpointBytes is the journal size in bytes that starts a checkpoint early; 0 means 256 MiB.
	CheckpointEvery time.Duration
	CheckpointBytes uint64
	// Follow is why the node decides nothing: it applies the entries of another node's journal, see
	// [Engine.Follow], until [Engine.Promote]. nil: it decides.
	Follow error
	// Standby confirms entries before they are acknowledged; nil: none does.
	Standby Standby
	// Refill replaces data that a damaged Store has lost; nil: no replacement.
	Refill *Refill
	// RemoteBytes bounds the memory of replicas; 0: no bound. See [Engine.Room].
	RemoteBytes uint64
	// Still prevents the opening and dropping of generations. It is for changing accounts without
	// knowing how long the node keeps its books. Reports go to the generations that were open last.
	Still bool
	// Recover, if not nil, reports whether peers may send back the generations of a lost store: see [Engine.Adopt].
	// The first generations then begin at once, and secrets without counts are kept.
	Recover func() bool
	// Exact stores everything in maps instead of filters, as the oracle for replay and tests. It
	// cannot be combined with a Store.
	Exact bool
	// MaxStep is the maximum by which the clock may be ahead of the newest record plus the time
	// that has passed since. Beyond it, the ageing of generations is held until [Options].Plausible
	// or [Engine.ConfirmClock] confirms the clock. A smaller step, of an hour or more, is held as well if a generation
	// would expire at once, or while the engine runs. See [StepLimit]; 0: any time is accepted.
	MaxStep time.Duration
	// SetAside is the folder for generations that have aged out, which are kept there for a day of running time. See
	// [Engine.BringBack]; "": none is kept.
	SetAside string
	// Plausible returns what confirms that a time of the machine's clock is right, "" if nothing does. It is called at
	// most once a second, while the ageing would be held. nil: nothing does.
	Plausible func(wall time.Time) (by string)
	// Uptime returns the time since a fixed moment by a clock that is never set; nil means since
	// the engine was opened.
	Uptime func() time.Duration
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // nil discards
}

// Defaults.
const (
	// DefaultThreshold is the count from which a message is bulk: the usual
	// threshold of DCC's users in Yan and Cho, section 4.
	DefaultThreshold = 20
	// DefaultNearMatch is the number of near bands that must agree, see signature.NearMatch.
	DefaultNearMatch = 2
)

// DefaultTally returns a tally of seven days, each for one million signatures, with a wrong count
// for at most one in a thousand.
func DefaultTally() BookOptions {
	return BookOptions{Generation: 24 * time.Hour, Keep: 7, Capacity: 1_000_000, Error: 1e-3}
}

// DefaultBlocklist returns a blocklist of eight weeks, each for a quarter million signatures, with
// a wrong judgement for at most one unreported signature in 100,000.
func DefaultBlocklist() BookOptions {
	return BookOptions{Generation: 7 * 24 * time.Hour, Keep: 8, Capacity: 250_000, Error: 1e-5}
}

// TallyBytes returns the memory in bytes of the first generation of a tally, without overflow
// tables, or an error that wraps [filter.ErrGeometry]. It allocates no array.
func TallyBytes(o BookOptions) (uint64, error) {
	return book.NewTally(o, leastReports(o), filter.Secret{}.ID(), false, nil).First()
}

// BlocklistBytes is [TallyBytes] for a blocklist.
func BlocklistBytes(o BookOptions) (uint64, error) {
	return book.NewBlocklist(o, leastVotes(o), leastNames(o), filter.Secret{}.ID(), false, nil).First()
}

// leastReports returns the default of [Options].Reports.
func leastReports(tally BookOptions) uint64 { return max(1, tally.Capacity/4) }

// leastVotes returns the default of [Options].Votes.
func leastVotes(block BookOptions) uint64 { return block.Capacity }

// leastNames returns the default of [Options].Names.
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
	if o.Shared != nil && o.Store == nil {
		return fmt.Errorf("engine: a shared journal needs a store for its copy")
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

// day returns the length of a generation of the tally, in seconds.
func (o *Options) day() uint64 { return uint64(o.Tally.Generation / time.Second) }
