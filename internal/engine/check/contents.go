package check

import (
	"slices"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine/evidence"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
)

// Limits of the look-up of a message's contents.
const (
	maxSamples = 160 // samples that are looked up
	maxHeld    = 32  // listed samples that the others are compared with
)

// contents are the samples of the current message. They implement [verdict.Contents]: a message
// contains another if it has a sample on which votes fell, and other samples recorded together with
// it.
type contents struct {
	of   *scratch
	odds *verdict.Odds

	samples []bulkhead.Sample
	all     []filter.Key // of them
	asks    []evidence.Ask
	records []evidence.Record
	held    []int // samples that are listed
	matches []verdict.Match
	keys    []filter.Key // of the samples of the texts that the message contains
}

// holds returns the contents of a message, or nil if it has no sketch.
func (s *scratch) holds(sigs []bulkhead.Signature, odds *verdict.Odds) verdict.Contents {
	c := &s.contents
	c.of, c.odds, c.samples, c.keys = s, odds, c.samples[:0], c.keys[:0]
	for i := range sigs {
		if len(c.samples) < maxSamples {
			c.samples = sigs[i].AppendSamples(c.samples)
		}
	}
	if len(c.samples) < verdict.PartMatch {
		return nil
	}
	return c
}

// look looks up the keys in the blocklists.
func (c *contents) look(wants evidence.Wants, n int, key func(int) filter.Key) []evidence.Record {
	c.asks, c.records = slices.Grow(c.asks[:0], n)[:n], slices.Grow(c.records[:0], n)[:n]
	for i := range c.asks {
		c.asks[i] = evidence.Ask{Key: key(i), Wants: wants}
	}
	c.of.reader.Read(c.asks, c.records)
	return c.records
}

// Matches implements [verdict.Contents].
func (c *contents) Matches() []verdict.Match {
	n := len(c.samples)
	c.all = slices.Grow(c.all[:0], n)[:n]
	samples := c.all
	for i := range samples {
		samples[i] = c.of.keys.Sample(c.samples[i])
	}
	c.held, c.matches = c.held[:0], c.matches[:0]
	for i, r := range c.look(evidence.Listings, n, func(i int) filter.Key { return samples[i] }) {
		if listed(&r) && len(c.held) < maxHeld {
			c.held = append(c.held, i)
		}
	}
	for _, held := range c.held {
		c.match(held, samples)
	}
	return c.matches
}

// match appends the match of samples[held].
func (c *contents) match(held int, samples []filter.Key) {
	together, quoted := 0, 0
	for i, r := range c.look(evidence.Listings, len(samples),
		func(i int) filter.Key { return c.of.keys.Together(samples[held], samples[i]) }) {
		if i == held || listed(&r) {
			together++
			if c.samples[i].Kind == bulkhead.SampleQuoted {
				quoted++
			}
		}
	}
	r := &c.look(evidence.Counts|evidence.Judgement|evidence.Standing, 1, func(int) filter.Key { return samples[held] })[0]
	ofOne := verdict.OfOneText(together, &r.Evidence)
	m := verdict.Match{Evidence: r.Evidence, Samples: ofOne, Quoted: 2*quoted > together}
	m.Finding.Signature = c.samples[held].Signature()
	fill(&m.Finding, r)
	c.of.decider.Policy.Finding(&m.Finding, &m.Evidence, c.odds)
	c.matches = append(c.matches, m)
	if m.Samples >= verdict.PartMatch {
		c.keys = append(c.keys, samples[held])
	}
}

// listed reports whether any blocklist lists the key as spam.
func listed(r *evidence.Record) bool { return r.Own == verdict.Listed || r.Peers.Spam > 0 }
