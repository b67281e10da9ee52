// Package check answers queries: it looks up the signatures of a message, and has package verdict
// judge what it finds.
package check

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/engine/view"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// MaxSignatures is the largest number of signatures in one query or report.
const MaxSignatures = 1024

// Options are the settings of a [Checker]. All fields but Learned are set.
type Options struct {
	Current   *view.Current
	Accounts  *trust.Book // for the trust policy
	Whitelist *Whitelist  // nil: empty
	NeverList []bulkhead.Signature
	Threshold uint32           // count from which a message is bulk
	NearMatch int              // near bands that must agree
	Day       uint64           // length of a generation of the tally, in seconds
	Week      time.Duration    // length of a generation of the blocklist
	Now       func() time.Time // by which generations open
	// RevocationFirst looks up revocations before spam.
	RevocationFirst bool
	Exact           bool // the arrays are maps, which make no errors
	Learned         *learned.Book
	Condemn         bool // see verdict.Learned
}

// A Checker answers queries. It takes no lock: it loads the present view, whitelist, threshold and
// odds once for each query. Its methods may be called concurrently.
type Checker struct {
	opts    Options
	current *view.Current
	never   neverList

	whitelist atomic.Pointer[Whitelist]
	threshold atomic.Uint32
	step      atomic.Int64 // verdict.Step
	meter     meter
	read      atomic.Pointer[Sources] // of the last look-up
	scratch   sync.Pool               // of *scratch
	count     atomic.Uint64           // checks
}

// New returns a checker. The caller calls [Checker.Measure] before the first query.
func New(o Options) *Checker {
	c := &Checker{opts: o, current: o.Current, never: newNeverList(o.NeverList)}
	c.scratch.New = c.newScratch
	c.threshold.Store(o.Threshold)
	c.whitelist.Store(o.Whitelist)
	return c
}

// SetWhitelist replaces the whitelist; nil empties it.
func (c *Checker) SetWhitelist(w *Whitelist) { c.whitelist.Store(w) }

// Whitelist returns the whitelist; nil if it is empty.
func (c *Checker) Whitelist() *Whitelist { return c.whitelist.Load() }

// Whitelisted returns the entry of the whitelist that a message matches by its source or one of its
// signatures, or "" if there is none.
func (c *Checker) Whitelisted(source *bulkhead.Source, sigs []bulkhead.Signature) string {
	return c.whitelist.Load().message(source, sigs)
}

// SetThreshold sets the count from which a message is bulk, above 0.
func (c *Checker) SetThreshold(n uint32) { c.threshold.Store(n) }

// Threshold returns the count from which a message is bulk.
func (c *Checker) Threshold() uint32 { return c.threshold.Load() }

// SetStep sets how careful the judgement is, from [verdict.LeastStep] to [verdict.MostStep].
func (c *Checker) SetStep(s verdict.Step) { c.step.Store(int64(s)) }

// Step returns how careful the judgement is.
func (c *Checker) Step() verdict.Step { return verdict.Step(c.step.Load()) }

// Checks returns the number of counted checks and look-ups.
func (c *Checker) Checks() uint64 { return c.count.Load() }

// Checked counts a check.
func (c *Checker) Checked() { c.count.Add(1) }

// A neverList is signatures that are never counted or shown.
type neverList struct {
	signatures map[bulkhead.Signature]bool
	schemes    uint64 // the bit of each scheme that occurs in signatures
}

func newNeverList(sigs []bulkhead.Signature) neverList {
	n := neverList{signatures: make(map[bulkhead.Signature]bool, len(sigs))}
	for _, sig := range sigs {
		n.signatures[sig] = true
		n.schemes |= 1 << sig.Scheme()
	}
	return n
}

func (n *neverList) has(sig *bulkhead.Signature) bool {
	return n.schemes>>sig.Scheme()&1 != 0 && n.signatures[*sig]
}

// Hides reports whether a signature is never shown, even if it was counted before a list had it, or
// by peers without that entry. white is the whitelist of the caller's query.
func (c *Checker) Hides(white *Whitelist, sig *bulkhead.Signature) bool {
	return c.never.has(sig) || white.signature(*sig)
}

// scratch holds the buffers of one check, reused so that a check of known size allocates
// nothing but its findings.
type scratch struct {
	opts    *Options
	reader  evidence.Reader
	secrets *keys.Secrets // the secrets that keys uses
	decider verdict.Decider
	message verdict.Case

	asks     []evidence.Ask
	records  []evidence.Record
	evidence []verdict.Evidence
	listed   []int // of a look

	// Of pairs.
	keys        keys.Maker
	pairAsks    []evidence.Ask
	pairRecords []evidence.Record

	contents contents

	peers  bool // there are any
	places places
}

func (c *Checker) newScratch() any {
	return &scratch{opts: &c.opts,
		reader: evidence.Reader{Day: c.opts.Day, Now: c.opts.Now, RevocationFirst: c.opts.RevocationFirst}}
}

// begin starts reading from the sources, with keys of their secrets.
func (s *scratch) begin(from *Sources) {
	if secrets := from.View.Secrets; s.secrets != secrets {
		s.secrets, s.keys = secrets, secrets.Maker()
		s.reader.Keys = s.keys
	}
	s.peers = len(from.View.Remote.Origins)+len(from.View.Remote.Counts) > 0
	s.keys.Forget()
	s.reader.Begin(from.Sources)
}

// CheckBatch checks queries[i] into verdicts[i], reusing the Findings of the verdicts. The slices
// must be of equal length. CheckBatch returns the error of the first malformed query; all verdicts
// are then zero.
func (c *Checker) CheckBatch(queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	for i := range queries {
		if _, err := c.Check(&queries[i], &verdicts[i], nil); err != nil {
			clear(verdicts)
			return err
		}
	}
	c.count.Add(uint64(len(queries)))
	return nil
}

// Check judges one message into v, reusing its Findings, and returns the basis of the verdict. If
// held is not nil, Check appends the keys of the parts of reported texts in the message to it. The
// check is not counted, see [Checker.Checks].
func (c *Checker) Check(q *bulkhead.Query, v *bulkhead.Verdict, held *[]filter.Key) (verdict.Outcome, error) {
	if err := ValidSignatures(q.Signatures); err != nil {
		return verdict.Outcome{}, err
	}
	s := c.scratch.Get().(*scratch)
	defer c.scratch.Put(s)
	findings := slices.Grow(v.Findings[:0], len(q.Signatures))[:len(q.Signatures)]
	*v = bulkhead.Verdict{Findings: findings, Threshold: q.Threshold}
	if v.Threshold == 0 {
		v.Threshold = c.threshold.Load()
	}
	policy, sources := c.Policy(), c.Sources()
	policy.Mature = sources.Mature
	s.begin(sources)
	defer s.reader.End()
	s.reader.Threshold = v.Threshold
	s.read(q.Signatures)

	odds, white := c.Odds(), c.whitelist.Load()
	for i := range findings {
		f := &findings[i]
		*f = bulkhead.Finding{Signature: q.Signatures[i]}
		if c.Hides(white, &f.Signature) {
			s.evidence[i] = verdict.Evidence{}
			continue
		}
		fill(f, &s.records[i])
		f.Bulk = f.Sightings >= v.Threshold
		policy.Finding(f, &s.evidence[i], odds.Odds)
	}
	v.Whitelisted = white.message(&q.Source, q.Signatures)
	s.decider.Policy = policy
	s.message = verdict.Case{Signatures: q.Signatures, Findings: findings, Evidence: s.evidence, Pairs: s,
		Contents: s.holds(q.Signatures, odds.Odds), Revoked: odds.Revoked(), Terse: q.Terse, Learned: c.learnt(q, sources),
		Inside: inside(q.Source.Client)}
	defer func() { s.message = verdict.Case{} }()
	outcome := s.decider.Message(v, &s.message)
	if held != nil {
		*held = append(*held, s.contents.keys...)
	}
	return outcome, nil
}

// inside reports whether an address is private. Mail from there comes from within the site, or through its gateway.
func inside(client netip.Addr) bool {
	return client.IsValid() && (!client.IsGlobalUnicast() || client.IsPrivate())
}

// Policy returns the administrator's settings for verdicts.
func (c *Checker) Policy() verdict.Policy {
	return verdict.Policy{Promotion: c.opts.Accounts.Policy().Promotion, NearMatch: c.opts.NearMatch, Step: c.Step()}
}

// read looks up the signatures.
func (s *scratch) read(sigs []bulkhead.Signature) {
	n := len(sigs)
	s.asks = slices.Grow(s.asks[:0], n)[:n]
	s.records = slices.Grow(s.records[:0], n)[:n]
	s.evidence = slices.Grow(s.evidence[:0], n)[:n]
	for i := range sigs {
		s.asks[i] = evidence.Ask{Key: s.keys.Base(&sigs[i]), Wants: wantsOf(&sigs[i])}
	}
	s.reader.Read(s.asks, s.records)
	for i := range s.records {
		s.evidence[i] = s.records[i].Evidence
	}
}

// wantsOf returns the aspects that a check looks up for a signature.
func wantsOf(sig *bulkhead.Signature) evidence.Wants {
	wants := evidence.Counts | evidence.Judgement
	switch scheme := sig.Scheme(); {
	case scheme == bulkhead.Sketch:
		return 0
	case scheme == bulkhead.Link, scheme == bulkhead.Network:
		wants |= evidence.Names | evidence.Standing
	case scheme == bulkhead.Sender, scheme == bulkhead.Contact, scheme == bulkhead.Claim,
		scheme == bulkhead.Attachment:
		wants |= evidence.Names
	case scheme != bulkhead.Near && scheme.Facet() == bulkhead.TextFacet:
		wants |= evidence.Standing
	}
	return wants
}

// fill fills in the counts of a finding.
func fill(f *bulkhead.Finding, r *evidence.Record) {
	f.Sightings, f.Spam, f.Ham = r.Sightings, r.Spam, r.Ham
	f.First, f.Last = startTime(r.First), startTime(r.Last)
}

// startTime returns the start of a generation as a time, or the zero time if there is none.
func startTime(start uint64) time.Time {
	if start == 0 {
		return time.Time{}
	}
	return time.Unix(int64(start), 0).UTC()
}

// Pairs implements [verdict.Pairs] for the current message.
func (s *scratch) Pairs(pairs []verdict.Pair, out []verdict.Evidence) {
	s.pairAsks = slices.Grow(s.pairAsks[:0], len(pairs))[:len(pairs)]
	s.pairRecords = slices.Grow(s.pairRecords[:0], len(pairs))[:len(pairs)]
	for i, p := range pairs {
		s.pairAsks[i] = evidence.Ask{Key: s.keys.Pair(s.asks[p.Text].Key, s.asks[p.Context].Key), Wants: evidence.Judgement}
	}
	s.reader.Read(s.pairAsks, s.pairRecords)
	for i := range s.pairRecords {
		out[i] = s.pairRecords[i].Evidence
	}
}

// ValidSignatures returns an error unless a query or report may have these signatures.
func ValidSignatures(sigs []bulkhead.Signature) error {
	if len(sigs) == 0 {
		return fmt.Errorf("%w: no signatures: the message has nothing to identify it by", bulkhead.ErrMalformed)
	}
	if len(sigs) > MaxSignatures {
		return fmt.Errorf("%w: %d signatures, limit %d", bulkhead.ErrOverLimit, len(sigs), MaxSignatures)
	}
	for i := range sigs {
		if !sigs[i].Valid() {
			return fmt.Errorf("%w: signature %d is invalid", bulkhead.ErrMalformed, i)
		}
	}
	return nil
}
