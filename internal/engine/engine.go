// Package engine is the Clearinghouse of a node. Its tally book counts how often a message was seen
// and how people voted. Its blocklist book records whether a trusted reporter has called the
// message spam and no other votes outweigh the report (Yan and Cho, sections 3 and 4).
//
// # Books and generations
//
// A book is a row of generations in time order. Votes go to the newest generation, look-ups add up
// all live generations, and the oldest is dropped whole ("signature aging"). A generation of the
// tally is a counting array and a bit array, which remembers the reports that were counted (a
// unique filter in Finch's sense). A generation of the blocklist is the spam and the revocation
// filter, the weights of votes with who voted on what, and the deliveries of names. Package book
// opens and drops generations; package verdict judges by their contents.
//
// # One writer
//
// Check takes no lock: package check loads the current view and reads array words atomically. Report hands its
// votes to one goroutine, which decides their effects (duplicates, weights, promotions), writes the
// decisions of a whole batch as one journal entry, waits until it is durable, applies it, and
// answers. The journal holds decisions, not votes, so replaying it after a crash depends on no
// other state. Each page of an array records the index of the last entry that it includes, so
// replay and page-by-page checkpoints cannot count anything twice.
//
// # Replicas
//
// Package replica holds the counts of other servers, one replica for each origin. Their
// rounds and images are journal entries like everything else.
//
// # Locks
//
// The books, the whitelist and the view of the replicas are atomic pointers. A look-up loads each of
// them once. The trust book has its own lock, which readers take for a map look-up
// and the writer for a change. No other lock is taken while it is held.
package engine

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/engine/ballots"
	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/check"
	"github.com/bulkhead-mail/bulkhead/internal/engine/heal"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/replica"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// An Engine is the clearinghouse of one node. It implements
// [bulkhead.Clearinghouse]; its methods may be called concurrently.
type Engine struct {
	opts     Options
	accounts *trust.Book
	ballots  *ballots.Book
	learned  *learned.Book
	lessons  *lesson.Exchange // nil: nothing is learnt together with peers
	current  *view.Current
	replicas *replica.Set
	checker  *check.Checker
	healer   *heal.Healer
	clock    *ageingClock
	queue    queue
	journal  journal
	role     role
	writer   writerState
	files    checkpointFiles
	counters counters
	pools    pools

	close   sync.Once
	closed  error
	keepers keepers
}

// keepers are goroutines that Close waits for.
type keepers struct {
	sync.WaitGroup
	making sync.Mutex // held while a generation is made ahead of time
}

// A writerState is what only the writer uses once it runs.
type writerState struct {
	resolver      *resolve.Resolver
	gatherings    gatheringLog
	recorder      recorder
	tally         *book.TallyKeeper
	block         *book.BlockKeeper
	leaving       leaving
	buf           []byte // for journal entries
	accountsIndex uint64 // last journal entry that is in the trust book
	sweep         sweep
}

// counters count the work of an engine since it started.
type counters struct {
	reports, refused, checkpoints, recoveries, forgotten, gatherings atomic.Uint64
}

// pools hold the buffers of reports.
type pools struct {
	seen    sync.Pool // of *bulkhead.Verdict
	reports sync.Pool // of *reportAddition
}

// Accounts returns the trust book, for reading.
func (e *Engine) Accounts() *trust.Book { return e.accounts }

// Check implements [bulkhead.Clearinghouse]. It takes no lock.
func (e *Engine) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	var v bulkhead.Verdict
	if _, err := e.checker.Check(&q, &v, nil); err != nil {
		return bulkhead.Verdict{}, err
	}
	e.checker.Checked()
	return v, nil
}

// CheckBatch checks queries[i] into verdicts[i], reusing the Findings of the verdicts. The slices
// must be of equal length. CheckBatch returns the error of the first malformed query; all verdicts
// are then zero.
func (e *Engine) CheckBatch(_ context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	return e.checker.CheckBatch(queries, verdicts)
}

// Look implements [bulkhead.Counter]. It takes no lock.
func (e *Engine) Look(_ context.Context, sigs []bulkhead.Signature, out []bulkhead.Look, what bulkhead.Aspect) error {
	return e.checker.Look(sigs, out, what)
}

// SetWhitelist replaces the whitelist; nil empties it.
func (e *Engine) SetWhitelist(w *Whitelist) { e.checker.SetWhitelist(w) }

// Whitelisted returns the entry of the whitelist that a message matches by its source or one of its
// signatures, or "" if there is none.
func (e *Engine) Whitelisted(source *bulkhead.Source, sigs []bulkhead.Signature) string {
	return e.checker.Whitelisted(source, sigs)
}

// SetThreshold sets the count from which a message is bulk; 0 means
// [DefaultThreshold].
func (e *Engine) SetThreshold(n uint32) {
	if n == 0 {
		n = DefaultThreshold
	}
	e.checker.SetThreshold(n)
}

// SetWantedLost sets the number of wanted mails per 100,000 that the operator accepts to lose, 0 or
// more. See [verdict.StepOf].
func (e *Engine) SetWantedLost(n float64) { e.checker.SetStep(verdict.StepOf(n)) }

// Step returns how careful the judgement is.
func (e *Engine) Step() verdict.Step { return e.checker.Step() }

// SetTrust replaces the trust policy. If a field is out of range, it changes nothing and returns an
// error that names the field.
func (e *Engine) SetTrust(p trust.Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	e.accounts.SetPolicy(p)
	e.replicas.Wake() // the promotion weight determines which lists may be merged
	return nil
}

// Refusing returns why the node currently refuses reports, or nil.
func (e *Engine) Refusing() error { return e.journal.refusing() }

// Doubts returns the parts of the node's data that may be lower than acknowledged, since its store
// was salvaged. A doubt ends with its generation, or when a peer has sent its counts again.
func (e *Engine) Doubts() []Doubt { return e.healer.Doubts() }

// Healings returns the peers whose replicas have healed pages since the start, and the numbers of
// pages.
func (e *Engine) Healings() []Healing { return e.healer.Healings() }

// Term returns the present term. Its number is 0 if the node never had a standby.
func (e *Engine) Term() Term { return *e.role.term.Load() }
