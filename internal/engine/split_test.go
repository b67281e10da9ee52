package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// A site is several nodes, each with the mail of some of the mailboxes, that count each other with full
// weight: docs/large-sites.md.
type site struct {
	nodes []*Engine
	owner [256]atomic.Int32 // of each share of the mailboxes, the node
	moves atomic.Int32      // of shares to other nodes

	mu     sync.Mutex
	seen   []map[delivery]bool // by node
	counts []map[int]uint32    // by node, then by text
	voted  map[int]map[int]bool
}

type delivery struct{ mailbox, text int }

func newSite(t *testing.T, nodes int, floor uint32) *site {
	t.Helper()
	c, s := newClock(), &site{voted: make(map[int]map[int]bool)}
	tally := BookOptions{Generation: 24 * time.Hour, Keep: 2, Capacity: 4000, Error: 1e-6, Floor: floor}
	o := Options{Now: c.Now, Tally: tally}
	for range nodes {
		e := open(t, o)
		if err := e.Record(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		s.nodes = append(s.nodes, e)
		s.seen, s.counts = append(s.seen, make(map[delivery]bool)), append(s.counts, make(map[int]uint32))
	}
	for i, e := range s.nodes {
		var others []Origin
		for j := range s.nodes {
			if j != i {
				others = append(others, Origin{ID: fmt.Sprint("n", j), Weight: 1})
			}
		}
		if err := e.SetOrigins(t.Context(), others); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// deliver counts a message to a mailbox at the node that has the mailbox.
func (s *site) deliver(ctx context.Context, mailbox, text int) error {
	at := int(s.owner[mailbox%len(s.owner)].Load())
	_, err := s.nodes[at].Report(ctx, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, text)},
		Recipients: []string{fmt.Sprint("user", mailbox, "@here.example")}})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := (delivery{mailbox, text}); !s.seen[at][d] {
		s.seen[at][d] = true
		s.counts[at][text]++
	}
	return nil
}

// vote calls a text spam at the node that has a mailbox.
func (s *site) vote(ctx context.Context, mailbox, text int) error {
	at := int(s.owner[mailbox%len(s.owner)].Load())
	_, err := s.nodes[at].Report(ctx, bulkhead.Report{Signatures: []bulkhead.Signature{sig(bulkhead.Exact, text)},
		Vote: bulkhead.Spam})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voted[text] == nil {
		s.voted[text] = make(map[int]bool)
	}
	s.voted[text][at] = true
	return nil
}

// move gives a share of the mailboxes to another node: first to the nodes that join, then to any.
func (s *site) move(rng *rand.Rand, joining int) {
	to, moved := rng.IntN(len(s.nodes)), int(s.moves.Add(1))
	if moved <= 16*joining {
		to = len(s.nodes) - 1 - moved%joining
	}
	s.owner[rng.IntN(len(s.owner))].Store(int32(to))
}

// exchange passes what each node took since the last call to all others.
func (s *site) exchange(ctx context.Context) error {
	for i, from := range s.nodes {
		parts, _, err := from.TakeRounds(ctx)
		if err != nil {
			return err
		}
		for j, to := range s.nodes {
			if j == i || len(parts) == 0 {
				continue
			}
			if err := applyParts(to, fmt.Sprint("n", i), parts); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestSplitSite: sixteen nodes have the mail of a site, each of some of its mailboxes, and mailboxes
// move between nodes under load, also to nodes that join. Each node shows the counts of a plain map:
// its own, and of the others what reaches the floor. A text that any of them listed is listed at all.
func TestSplitSite(t *testing.T) {
	const nodes, joining, clients, mailboxes, texts = 16, 4, 8, 4096, 600
	each := 1500
	if testing.Short() {
		each = 200
	}
	for _, floor := range []uint32{0, 2} {
		t.Run(fmt.Sprint("floor ", floor), func(t *testing.T) {
			s := newSite(t, nodes, floor)
			for slot := range s.owner {
				s.owner[slot].Store(int32(slot % (nodes - joining)))
			}
			ctx, errs, done := t.Context(), make(chan error, clients), make(chan struct{})
			var running sync.WaitGroup
			for client := range clients {
				running.Go(func() {
					rng := rand.New(rand.NewPCG(7, uint64(client)))
					for range each {
						mailbox, text := rng.IntN(mailboxes), int(texts*rng.Float64()*rng.Float64()*rng.Float64())
						err := s.deliver(ctx, mailbox, text)
						if err == nil && rng.IntN(20) == 0 {
							err = s.vote(ctx, mailbox, texts+text)
						}
						if err != nil {
							errs <- err
							return
						}
						if rng.IntN(10) == 0 {
							s.move(rng, joining)
						}
					}
				})
			}
			go func() { running.Wait(); close(done) }()
			for loaded := true; loaded; {
				select {
				case <-done:
					loaded = false // the last exchange has everything
				default:
				}
				if err := s.exchange(ctx); err != nil {
					t.Fatal(err)
				}
			}
			close(errs)
			for err := range errs {
				t.Fatal(err)
			}
			s.compare(t, max(1, floor), texts)
			if s.moves.Load() <= 16*joining {
				t.Errorf("%d moves, want more than those of the joining nodes", s.moves.Load())
			}
		})
	}
}

// compare compares what every node shows with the maps.
func (s *site) compare(t *testing.T, floor uint32, texts int) {
	t.Helper()
	hidden, listed := 0, 0
	for text := range texts {
		for i, e := range s.nodes {
			want := s.counts[i][text]
			for j := range s.nodes {
				switch n := s.counts[j][text]; {
				case j == i:
				case n >= floor:
					want += n
				case n > 0:
					hidden++
				}
			}
			if got := verdictOf(t, e, sig(bulkhead.Exact, text)).Findings[0].Sightings; got != want {
				t.Fatalf("node %d shows %d sightings of text %d, want %d", i, got, text, want)
			}
			f := verdictOf(t, e, sig(bulkhead.Exact, texts+text)).Findings[0]
			if got, want := f.Judged == bulkhead.JudgedSpam, len(s.voted[texts+text]) > 0; got != want {
				t.Fatalf("node %d: text %d listed: %v, want %v", i, texts+text, got, want)
			}
			if f.Judged == bulkhead.JudgedSpam {
				listed++
			}
		}
	}
	if listed < len(s.nodes) || (hidden > 0) != (floor > 1) {
		t.Fatalf("%d texts listed, %d counts below the floor", listed, hidden)
	}
}

// TestSplitSiteStrangers: strangers' sightings reach half of the bulk threshold at each node, so those of
// two nodes together make a text bulk. Doors of one node only are open to strangers.
func TestSplitSiteStrangers(t *testing.T) {
	s := newSite(t, 2, 0)
	text := sig(bulkhead.Exact, 1)
	for i, want := range []bool{false, true} {
		for n := range 40 {
			name := fmt.Sprint("stranger-", n)
			put(t, s.nodes[i], name, trust.Member, 0.05, netip.AddrFrom4([4]byte{198, 18, byte(n), 1}))
			report(t, s.nodes[i], by(name, bulkhead.Sighting, text))
		}
		if err := s.exchange(t.Context()); err != nil {
			t.Fatal(err)
		}
		for at, e := range s.nodes {
			f := verdictOf(t, e, text).Findings[0]
			if half := e.checker.Threshold() / 2; f.Bulk != want || f.Sightings != uint32(i+1)*half {
				t.Errorf("strangers at %d nodes: node %d shows %d sightings, bulk: %v", i+1, at, f.Sightings, f.Bulk)
			}
		}
	}
}
