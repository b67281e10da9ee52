package stream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/recent"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A node is the judge that is shipped: the engine of one node, or of one for each site. Its memory of
// recent messages joins votes with their deliveries.
type node struct {
	*plan
	opts    *Options
	now     atomic.Pointer[time.Time] // engines read it when they like
	engines []*engine.Engine
	houses  []*recent.House // in front of the engines
	slices  [2]int64        // of time, of both books, that the engines have seen
}

func newNode(ctx context.Context, p *plan, opts *Options) (*node, error) {
	s := &node{plan: p, opts: opts}
	s.now.Store(&begin)
	servers := 1
	if opts.Lone {
		servers = opts.Sites
	}
	for server := range servers {
		e, err := engine.Open(ctx, s.shape(server))
		if err != nil {
			return nil, errors.Join(err, s.close(ctx))
		}
		s.engines = append(s.engines, e)
		s.houses = append(s.houses, s.remembering(e))
		for site := range opts.Sites {
			if err := e.PutAccount(ctx, siteAccount(site)); err != nil {
				return nil, errors.Join(err, s.close(ctx))
			}
		}
	}
	return s, nil
}

// The memory of a node by default: for recent messages, for the sources of their deliveries, and for
// words and style.
const (
	messageBytes, deliveryBytes = 48 << 20, 16 << 20
	messageAge                  = 7 * 24 * time.Hour
	learnBytes                  = 64 << 20
)

// remembering returns an engine with a memory of recent messages, as a node has it.
func (s *node) remembering(e *engine.Engine) *recent.House {
	now := func() time.Time { return *s.now.Load() }
	house := recent.New(e, recent.NewTable(messageBytes, messageAge, now),
		func(bulkhead.Reporter) (recent.Space, bool) { return "", true })
	house.Join(recent.NewDeliveries(deliveryBytes, messageAge, now), noArchive{})
	return house
}

// noArchive is the history of a node that keeps none.
type noArchive struct{}

func (noArchive) MessageID(text string) (id [16]byte) {
	if text != "" {
		sum := sha256.Sum256([]byte(text))
		copy(id[:], sum[:])
	}
	return id
}

func (noArchive) Mailbox(address string) recent.Mailbox {
	hash := func(text string) uint64 {
		sum := sha256.Sum256([]byte(text))
		return binary.BigEndian.Uint64(sum[:])
	}
	local, _, _ := strings.Cut(address, "@")
	return recent.Mailbox{Address: hash(address), Local: hash(local)}
}

func (noArchive) Find(context.Context, bulkhead.Signature, [16]byte) []recent.Delivery { return nil }

func siteAccount(site int) trust.Account {
	return trust.Account{Name: siteName(site), Role: trust.Trusted, Weight: 1}
}

// shape is an engine with room for twice what comes to it on its busiest day, so
// that no generation turns early.
func (s *node) shape(server int) engine.Options {
	tally, block := engine.DefaultTally(), engine.DefaultBlocklist()
	days := map[int64]int{}
	busiest := 0
	for i := range s.deliveries {
		d := &s.deliveries[i]
		if s.opts.Lone && d.site != server {
			continue
		}
		day := d.at.UnixNano() / int64(tally.Generation)
		days[day] += len(d.letter.sigs)
		busiest = max(busiest, days[day])
	}
	tally.Capacity = max(s.capacity, uint64(max(1000, 2*busiest)))
	block.Capacity = tally.Capacity
	learn := uint64(learnBytes)
	if s.opts.Lone {
		learn /= uint64(s.opts.Sites)
	}
	return engine.Options{
		Secret: filter.Secret(NetworkKey), Tally: tally, Block: block, Exact: s.opts.Exact,
		LearnBytes: learn, NeverList: signature.NeverList(),
		Now: func() time.Time { return *s.now.Load() },
	}
}

// server returns the node of a site.
func (s *node) server(site int) *recent.House {
	if s.opts.Lone {
		return s.houses[site]
	}
	return s.houses[0]
}

// deliver checks a copy and counts it.
func (s *node) deliver(ctx context.Context, d *delivery) (answer, error) {
	a, err := s.check(ctx, d)
	if err != nil {
		return answer{}, err
	}
	return a, s.count(ctx, d)
}

func (s *node) check(ctx context.Context, d *delivery) (answer, error) {
	v, err := s.verdict(ctx, d, true)
	return answer{v.Class, v.Confidence}, err
}

// verdict returns the node's answer, without reasons if it is terse.
func (s *node) verdict(ctx context.Context, d *delivery, terse bool) (bulkhead.Verdict, error) {
	return s.server(d.site).Check(ctx, bulkhead.Query{
		Signatures: d.letter.sigs, Source: d.letter.source, Reporter: bulkhead.Reporter{Account: d.account()}, Terse: terse,
	})
}

// count reports that a copy was delivered.
func (s *node) count(ctx context.Context, d *delivery) error {
	return s.report(ctx, d, bulkhead.Report{Vote: bulkhead.Sighting, Recipients: []string{d.address()}})
}

// vote reports on behalf of the recipient.
func (s *node) vote(ctx context.Context, d *delivery, vote bulkhead.Vote) error {
	return s.report(ctx, d, bulkhead.Report{Vote: vote, Reporter: bulkhead.Reporter{User: d.address()}})
}

func (s *node) report(ctx context.Context, d *delivery, r bulkhead.Report) error {
	r.Signatures, r.Source, r.Reporter.Account = d.letter.sigs, d.letter.source, d.account()
	_, err := s.server(d.site).Report(ctx, r)
	return err
}

// turn sets the clock, and makes all engines open and drop their generations at the
// same message, whatever the speed of the machine: the writer does it before it
// takes a request, so a request without effect is enough.
func (s *node) turn(ctx context.Context, now time.Time) error {
	s.now.Store(&now)
	slices := [2]int64{
		now.UnixNano() / int64(engine.DefaultTally().Generation),
		now.UnixNano() / int64(engine.DefaultBlocklist().Generation),
	}
	if slices == s.slices {
		return nil
	}
	s.slices = slices
	for _, e := range s.engines {
		if err := e.PutAccount(ctx, siteAccount(0)); err != nil {
			return err
		}
	}
	return nil
}

func (s *node) close(ctx context.Context) (err error) {
	for _, e := range s.engines {
		err = errors.Join(err, e.Close(context.WithoutCancel(ctx)))
	}
	return err
}
