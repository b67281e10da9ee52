package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/check"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/keys"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/resolve"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// Report implements [bulkhead.Clearinghouse].
func (e *Engine) Report(ctx context.Context, r bulkhead.Report) (bulkhead.Receipt, error) {
	return e.CountAndReport(ctx, nil, nil, r)
}

// CountAndReport implements [bulkhead.CountReporter]. One journal entry has both.
func (e *Engine) CountAndReport(ctx context.Context, sigs []bulkhead.Signature, n []uint32,
	r bulkhead.Report) (bulkhead.Receipt, error) {
	if err := validCounts(sigs, n); err != nil {
		e.counters.refused.Add(1)
		return bulkhead.Receipt{}, fmt.Errorf("%w: %v", bulkhead.ErrMalformed, err)
	}
	for {
		a, err := e.prepare(&r)
		if err != nil {
			e.counters.refused.Add(1)
			if bulkhead.Tolerate(err) == nil && len(sigs) > 0 {
				if failed := e.Count(ctx, sigs, n); failed != nil {
					err = failed
				}
			}
			return bulkhead.Receipt{}, err
		}
		if len(sigs) > 0 {
			a.counts = e.counts(a.secrets, sigs, n)
		}
		if err = e.queue.add(ctx, a); errors.Is(err, errOtherSecret) {
			continue // its keys were made with a secret that is no longer the present one
		}
		if err != nil {
			return bulkhead.Receipt{}, err
		}
		a.receipt.Duplicate += a.repeated
		receipt := a.receipt
		e.recycle(a)
		return receipt, nil
	}
}

// A reportAddition is a report and its receipt.
type reportAddition struct {
	secrets  *keys.Secrets
	counts   counts // that are counted with it
	message  resolve.Message
	own      []bulkhead.Signature // the message's copy, because the caller may give up and reuse its slice
	repeated int                  // signatures that a vote names twice
	receipt  bulkhead.Receipt
}

func (a *reportAddition) signatures() int { return len(a.message.Signatures) + len(a.counts.cells) }

func (a *reportAddition) under() *keys.Secrets { return a.secrets }

// decide also counts if the reporter has no vote.
func (a *reportAddition) decide(r *resolve.Resolver) (err error) {
	if a.receipt, err = r.Report(&a.message); bulkhead.Tolerate(err) == nil {
		r.Count(a.counts.cells, a.counts.n)
	}
	return err
}

// prepare does as much work as possible in the caller's goroutine, because there is only one
// writer.
func (e *Engine) prepare(r *bulkhead.Report) (*reportAddition, error) {
	if err := checkReport(r); err != nil {
		return nil, err
	}
	a := e.pools.reports.Get().(*reportAddition)
	a.message.Report, a.secrets = *r, e.current.Books().Secrets
	if e.learned.On() {
		a.message.Tokens = learn.Tokens(a.secrets.Present(), r.Source.Features)
	}
	if r.Vote == bulkhead.Sighting {
		if err := e.see(a); err != nil {
			return nil, err
		}
	}
	maker := a.secrets.Maker()
	a.message.Past = maker.Past
	e.unhidden(a, maker)
	return a, nil
}

// recycle returns an addition to the pool after the writer has answered it and no references to it
// are left.
func (e *Engine) recycle(a *reportAddition) {
	const most = 1 << 10 // signatures; larger buffers are not worth their memory
	if m := &a.message; cap(a.own) <= most {
		*a = reportAddition{own: a.own[:0], message: resolve.Message{Keys: m.Keys[:0], Samples: m.Samples[:0]}}
		e.pools.reports.Put(a)
	}
}

// see judges a message that a root reports as delivered, because spam does not count as a delivery.
func (e *Engine) see(a *reportAddition) error {
	r, seen := &a.message.Report, &a.message.Seen
	standing, err := e.accounts.Door(r.Reporter)
	if err != nil || !standing.Root {
		return nil // the writer refuses the report, or counts it as a claim
	}
	v := e.pools.seen.Get().(*bulkhead.Verdict)
	defer e.pools.seen.Put(v)
	var held []filter.Key
	outcome, err := e.checker.Check(&bulkhead.Query{Signatures: r.Signatures, Source: r.Source, Reporter: r.Reporter,
		Terse: true}, v, &held)
	if err != nil {
		return err
	}
	*seen = resolve.Seen{
		Caught:     v.Class == bulkhead.ClassSpam,
		Flagged:    v.Class >= bulkhead.ClassSuspected && outcome.By != bulkhead.NetworkFacet,
		TextAlone:  outcome.By == bulkhead.TextFacet,
		GoodSender: outcome.SenderGood, History: outcome.History, Sightings: v.Sightings, Held: held,
		Learned: v.Learned,
	}
	if i := outcome.Accused; i >= 0 {
		seen.Accused = resolve.Accused{Signature: r.Signatures[i], Peers: outcome.Peers, Deliveries: outcome.Received}
	}
	e.tryPeers(seen, a.message.Tokens, a.secrets.IDs[0])
	return nil
}

// unhidden removes the signatures of a report that a list hides. From a vote it also removes
// repeated signatures.
func (e *Engine) unhidden(a *reportAddition, maker keys.Maker) {
	m := &a.message
	all, white := m.Signatures, e.checker.Whitelist()
	if m.Vote != bulkhead.Revocation && white.Source(&m.Source) != "" {
		m.Signatures, m.Whitelisted = nil, len(all)
		return
	}
	own := slices.Grow(a.own, len(all))
	m.Keys = slices.Grow(m.Keys, len(all))
	var had repeats
	for i := range all {
		if all[i].Scheme() == bulkhead.Sketch {
			if m.Vote == bulkhead.Spam && len(m.Samples) < maxOwn {
				samples(m, &all[i], maker)
			}
			continue
		}
		if e.checker.Hides(white, &all[i]) {
			m.Whitelisted++
			continue
		}
		k := maker.Base(&all[i])
		if m.Vote != bulkhead.Sighting && had.has(m.Keys, k) {
			a.repeated++
			continue
		}
		own, m.Keys = append(own, all[i]), append(m.Keys, k)
	}
	a.own, m.Signatures = own, own
	if m.Vote == bulkhead.Spam && !bulkhead.Identifies(m.Signatures) {
		m.Whitelisted += len(m.Signatures) // all its signatures are hidden
		m.Signatures, m.Keys = nil, nil
	}
}

// repeats finds keys that a report already has. For the usual number of signatures, a small bitmap
// shows that most keys are new, and other keys are compared one by one, which costs less than a
// map.
type repeats struct {
	bits  [8]uint64
	known map[filter.Key]struct{} // nil while there are few
}

// has reports whether k is among keys. Between two calls, the caller may append k to keys.
func (r *repeats) has(keys []filter.Key, k filter.Key) bool {
	const few = 64
	if len(keys) <= few {
		word, bit := &r.bits[k.Lo>>6%uint64(len(r.bits))], uint64(1)<<(k.Lo%64)
		if *word&bit == 0 {
			*word |= bit
			return false
		}
		return slices.Contains(keys, k)
	}
	if r.known == nil {
		r.known = make(map[filter.Key]struct{}, 2*few)
		for _, had := range keys {
			r.known[had] = struct{}{}
		}
	}
	_, had := r.known[k]
	r.known[k] = struct{}{}
	return had
}

// maxOwn is the maximum number of own samples that a vote records together.
const maxOwn = 24

// samples takes the message's own samples from a sketch. They later identify the message inside
// other messages.
func samples(m *resolve.Message, sketch *bulkhead.Signature, maker keys.Maker) {
	for _, s := range sketch.AppendSamples(nil) {
		if s.Kind == bulkhead.SampleOwn && len(m.Samples) < maxOwn {
			m.Samples = append(m.Samples, maker.Sample(s))
		}
	}
}

func checkReport(rep *bulkhead.Report) error {
	if rep.Vote >= bulkhead.NumVotes {
		return fmt.Errorf("%w: vote %d", bulkhead.ErrMalformed, rep.Vote)
	}
	if len(rep.ID) > bulkhead.MaxID {
		return fmt.Errorf("%w: report id of %d bytes, limit %d", bulkhead.ErrMalformed, len(rep.ID), bulkhead.MaxID)
	}
	if err := check.ValidSignatures(rep.Signatures); err != nil {
		return err
	}
	if rep.Vote == bulkhead.Spam && !bulkhead.Identifies(rep.Signatures) {
		return fmt.Errorf("%w: a spam vote on nothing but a claimed name, network or markup, which many messages share",
			bulkhead.ErrMalformed)
	}
	return nil
}

// counts are sightings to count: cells of the tally, and the increase of each.
type counts struct {
	cells []filter.Key
	n     []uint32
}

// A countAddition holds sightings that no report comes with.
type countAddition struct {
	secrets *keys.Secrets
	counts
}

func (c *countAddition) signatures() int { return len(c.cells) }

func (c *countAddition) under() *keys.Secrets { return c.secrets }

// decide only passes the counts on: these sightings need no look-up in the arrays.
func (c *countAddition) decide(r *resolve.Resolver) error {
	r.Count(c.cells, c.n)
	return nil
}

// Count implements [bulkhead.Counter]. It takes up to 65,536 signatures at once.
func (e *Engine) Count(ctx context.Context, sigs []bulkhead.Signature, n []uint32) error {
	if err := validCounts(sigs, n); err != nil {
		e.counters.refused.Add(1)
		return err
	}
	for {
		secrets := e.current.Books().Secrets
		c := &countAddition{secrets, e.counts(secrets, sigs, n)}
		if len(c.cells) == 0 {
			return nil
		}
		if err := e.queue.add(ctx, c); !errors.Is(err, errOtherSecret) {
			return err
		}
	}
}

func validCounts(sigs []bulkhead.Signature, n []uint32) error {
	if len(sigs) > maxVotes {
		return fmt.Errorf("%w: %d signatures to count, limit %d", bulkhead.ErrOverLimit, len(sigs), maxVotes)
	}
	return bulkhead.ValidCounts(sigs, n)
}

// counts hashes in the caller's goroutine, because there is only one writer.
func (e *Engine) counts(secrets *keys.Secrets, sigs []bulkhead.Signature, n []uint32) counts {
	white, maker := e.checker.Whitelist(), keys.Maker{Secret: secrets.Present()}
	c := counts{cells: make([]filter.Key, 0, len(sigs)), n: make([]uint32, 0, len(sigs))}
	for i := range sigs {
		sig := &sigs[i]
		if e.checker.Hides(white, sig) {
			continue
		}
		c.cells = append(c.cells, maker.Base(sig).With(evidence.Sighting))
		c.n = append(c.n, n[i])
	}
	return c
}

// A collected is a message of a collection that is learnt.
type collected struct {
	secrets *keys.Secrets
	who     bulkhead.Reporter
	text    learn.Token
	tokens  []learn.Token
	spam    bool
}

func (l *collected) signatures() int { return 1 }

func (l *collected) under() *keys.Secrets { return l.secrets }

func (l *collected) decide(r *resolve.Resolver) error {
	return r.Learn(l.who, l.text, l.tokens, l.spam)
}

// Learn learns the words and the style of a message, of spam or of delivered mail, without a vote on its
// signatures. A message is learnt once. Learn returns an error that wraps [bulkhead.ErrMalformed] if the
// node does not learn, or if the message has too little text. It returns an error that wraps
// [bulkhead.ErrForbidden] if the reporter's votes do not count in full.
func (e *Engine) Learn(ctx context.Context, who bulkhead.Reporter, sigs []bulkhead.Signature, features []string,
	spam bool) error {
	i := slices.IndexFunc(sigs, func(s bulkhead.Signature) bool { return s.Scheme() == bulkhead.Exact })
	switch {
	case !e.learned.On():
		return fmt.Errorf("%w: this node does not learn: see [learn] of its configuration", bulkhead.ErrMalformed)
	case i < 0 || len(features) == 0:
		return fmt.Errorf("%w: the message has too little text", bulkhead.ErrMalformed)
	}
	for {
		secrets := e.current.Books().Secrets
		maker := keys.Maker{Secret: secrets.Present()}
		l := &collected{secrets: secrets, who: who, text: resolve.TextOf(maker.Base(&sigs[i])), spam: spam,
			tokens: learn.Tokens(secrets.Present(), features)}
		if err := e.queue.add(ctx, l); !errors.Is(err, errOtherSecret) {
			return err
		}
	}
}

// Learned returns the state of what the node has learnt of words and style.
func (e *Engine) Learned() learned.State { return e.learned.State() }
