package engine

import (
	"context"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// scratch holds the buffers of one check, reused so that a check of known size allocates
// nothing but its findings.
type scratch struct {
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
}

func (e *Engine) newScratch() *scratch {
	return &scratch{reader: evidence.Reader{Day: e.day(), RevocationFirst: e.opts.RevocationFirst}}
}

// begin starts reading from the sources, with keys of their secrets.
func (s *scratch) begin(from *sources) {
	if secrets := from.view.secrets; s.secrets != secrets {
		s.secrets, s.keys = secrets, secrets.Maker()
		s.reader.Keys = s.keys
	}
	s.keys.Forget()
	s.reader.Begin(from.Sources)
}

// day returns the length of a generation of the tally, in seconds.
func (e *Engine) day() uint64 { return uint64(e.opts.Tally.Generation / time.Second) }

// Check implements [bulkhead.Clearinghouse]. It takes no lock.
func (e *Engine) Check(_ context.Context, q bulkhead.Query) (bulkhead.Verdict, error) {
	var v bulkhead.Verdict
	if _, err := e.check(&q, &v, nil); err != nil {
		return bulkhead.Verdict{}, err
	}
	e.counters.checks.Add(1)
	return v, nil
}

// CheckBatch checks queries[i] into verdicts[i], reusing the Findings of the verdicts. The slices
// must be of equal length. CheckBatch returns the error of the first malformed query; all verdicts
// are then zero.
func (e *Engine) CheckBatch(_ context.Context, queries []bulkhead.Query, verdicts []bulkhead.Verdict) error {
	for i := range queries {
		if _, err := e.check(&queries[i], &verdicts[i], nil); err != nil {
			clear(verdicts)
			return err
		}
	}
	e.counters.checks.Add(uint64(len(queries)))
	return nil
}

// check judges one message into v, reusing its Findings, and returns the basis of the verdict. If
// held is not nil, check appends the keys of the parts of reported texts in the message to it.
func (e *Engine) check(q *bulkhead.Query, v *bulkhead.Verdict, held *[]filter.Key) (verdict.Outcome, error) {
	if err := checkSignatures(q.Signatures); err != nil {
		return verdict.Outcome{}, err
	}
	s := e.scratch.Get().(*scratch)
	defer e.scratch.Put(s)
	findings := slices.Grow(v.Findings[:0], len(q.Signatures))[:len(q.Signatures)]
	*v = bulkhead.Verdict{Findings: findings, Threshold: q.Threshold}
	if v.Threshold == 0 {
		v.Threshold = e.threshold.Load()
	}
	policy, sources := e.policy(), e.sources()
	policy.Mature = sources.Mature
	s.begin(sources)
	defer s.reader.End()
	s.reader.Threshold = v.Threshold
	s.read(q.Signatures)

	odds, white := e.odds.Load(), e.whitelist.Load()
	for i := range findings {
		f := &findings[i]
		*f = bulkhead.Finding{Signature: q.Signatures[i]}
		if e.hides(white, &f.Signature) {
			s.evidence[i] = verdict.Evidence{}
			continue
		}
		fill(f, &s.records[i])
		f.Bulk = f.Sightings >= v.Threshold
		policy.Finding(f, &s.evidence[i], odds.Odds)
	}
	v.Whitelisted = e.Whitelisted(&q.Source, q.Signatures)
	s.decider.Policy = policy
	s.message = verdict.Case{Signatures: q.Signatures, Findings: findings, Evidence: s.evidence, Pairs: s,
		Contents: s.holds(q.Signatures, odds.Odds), Revoked: odds.Revoked(), Terse: q.Terse}
	defer func() { s.message = verdict.Case{} }()
	outcome := s.decider.Message(v, &s.message)
	if held != nil {
		*held = append(*held, s.contents.keys...)
	}
	return outcome, nil
}

// policy returns the administrator's settings for verdicts.
func (e *Engine) policy() verdict.Policy {
	return verdict.Policy{Promotion: e.accounts.Policy().Promotion, NearMatch: e.opts.NearMatch}
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
	case scheme == bulkhead.Link:
		wants |= evidence.Names | evidence.Standing
	case scheme == bulkhead.Sender, scheme == bulkhead.Network, scheme == bulkhead.Contact, scheme == bulkhead.Claim:
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
