package replay

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
)

// An event is something that happens at a site: a message arrives, or a recipient acts on one.
type event struct {
	at     time.Time
	order  int // of events at the same time
	letter *letter
	site   int
	kind   eventKind
	run    int // of an action: index of the judge whose verdict called for it, engines first
}

type eventKind uint8

const (
	arrives eventKind = iota
	reports           // a recipient says that it is spam
	revokes           // a recipient says that it is not
)

// A queue is events in order of time.
type queue []*event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*event)) }
func (q *queue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// A simulation is the state of one replay.
type simulation struct {
	opts    Options
	letters []*letter
	rand    *rand.Rand
	queue   queue
	order   int
	now     atomic.Int64 // the mail's clock, Unix seconds

	capacity uint64 // of a generation of the tally

	runs  [2]*replayRun // filters and exact
	node  *record       // of the filters
	peers []*peer
	tally *tally
}

// A replayRun is one engine of a replay.
type replayRun struct {
	engine *engine.Engine
	slices [2]int64 // numbers of the time slices of both books that the engine has seen
	spent  time.Duration
	calls  int
	counts runCounts
}

func newSimulation(ctx context.Context, letters []*letter, opts Options) (*simulation, error) {
	s := &simulation{opts: opts, letters: letters, rand: rand.New(rand.NewPCG(opts.Seed, 0x7265706c6179))}
	s.now.Store(letters[0].time.Unix())
	s.tally = newTally(letters)
	s.node, s.peers = newRecord(Node, "as the engine judges"), newPeers()
	tally := engine.DefaultTally()
	if tally.Capacity = opts.Capacity; tally.Capacity == 0 {
		tally.Capacity = capacityFor(letters, tally.Generation)
	}
	s.capacity = tally.Capacity
	block := engine.DefaultBlocklist()
	block.Capacity = max(1000, tally.Capacity/4)
	for i := range s.runs {
		e, err := engine.Open(ctx, engine.Options{
			Secret: filter.Secret(replayKey), Tally: tally, Block: block, Votes: tally.Capacity, Threshold: opts.Threshold,
			NearMatch: opts.NearMatch,
			Exact:     i == 1, Now: func() time.Time { return time.Unix(s.now.Load(), 0).UTC() },
		})
		if err != nil {
			return nil, errors.Join(err, s.close(ctx, nil))
		}
		s.runs[i] = &replayRun{engine: e}
		for site := range opts.Sites {
			account := trust.Account{Name: siteName(site), Role: trust.Trusted, Weight: opts.Weight}
			if err := e.PutAccount(ctx, account); err != nil {
				return nil, errors.Join(err, s.close(ctx, nil))
			}
		}
	}
	return s, nil
}

func siteName(site int) string { return fmt.Sprintf("site-%04d", site+1) }

// capacityFor returns twice the largest number of signatures that arrive in one generation.
// If one filled up, the next would open early, and not at the same message in both runs.
func capacityFor(letters []*letter, generation time.Duration) uint64 {
	most, count, slice := 0, 0, int64(0)
	for _, l := range letters {
		if n := l.time.UnixNano() / int64(generation); n != slice {
			slice, count = n, 0
		}
		count += len(l.sigs)
		most = max(most, count)
	}
	return uint64(max(1000, 2*most))
}

// run delivers all letters.
func (s *simulation) run(ctx context.Context) error {
	delivered, total := 0, 0
	for _, l := range s.letters {
		total += l.copies
	}
	for _, l := range s.letters {
		if err := s.until(ctx, l.time, &delivered, total); err != nil {
			return err
		}
		at := l.time
		for _, site := range s.rand.Perm(s.opts.Sites)[:l.copies] {
			s.push(&event{at: at, letter: l, site: site, kind: arrives})
			at = at.Add(time.Duration(s.rand.ExpFloat64() * float64(s.opts.Spread)))
		}
	}
	return s.until(ctx, time.Time{}, &delivered, total)
}

func (s *simulation) push(e *event) {
	s.order++
	e.order = s.order
	heap.Push(&s.queue, e)
}

// until runs all events that are due before the given time; the zero time means all.
func (s *simulation) until(ctx context.Context, end time.Time, delivered *int, total int) error {
	for len(s.queue) > 0 && (end.IsZero() || s.queue[0].at.Before(end)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		e := heap.Pop(&s.queue).(*event)
		// A collection may have a message from before the first one's time.
		s.now.Store(max(s.now.Load(), e.at.Unix()))
		if err := s.happen(ctx, e); err != nil {
			return fmt.Errorf("replay: %s: %w", e.letter.name, err)
		}
		if e.kind == arrives {
			*delivered++
			s.opts.Progress("delivering", *delivered, total)
		}
	}
	return nil
}

func (s *simulation) happen(ctx context.Context, e *event) error {
	if len(e.letter.sigs) == 0 {
		s.tally.unsigned(e)
		return nil
	}
	reporter := bulkhead.Reporter{Account: siteName(e.site)}
	if e.kind != arrives && e.run >= len(s.runs) {
		s.peers[e.run-len(s.runs)].vote(e)
		return nil
	}
	if e.kind != arrives {
		vote := bulkhead.Report{Signatures: e.letter.sigs, Vote: bulkhead.Spam, Reporter: reporter, Source: e.letter.source}
		return s.act(ctx, e, vote)
	}
	var verdicts [2]bulkhead.Verdict
	for i, run := range s.runs {
		if err := s.turn(ctx, run); err != nil {
			return err
		}
		start := time.Now()
		v, err := run.engine.Check(ctx, bulkhead.Query{Signatures: e.letter.sigs, Source: e.letter.source,
			Reporter: reporter})
		if err == nil {
			_, err = run.engine.Report(ctx, bulkhead.Report{Signatures: e.letter.sigs, Vote: bulkhead.Sighting,
				Reporter: reporter, Source: e.letter.source})
		}
		run.spent += time.Since(start)
		run.calls++
		if err != nil {
			return err
		}
		verdicts[i] = v
	}
	s.tally.delivery(s, e, &verdicts)
	s.node.delivery(e, judgementOf(&verdicts[0]))
	flagged := []bool{verdicts[0].Spam(), verdicts[1].Spam()}
	for _, p := range s.peers {
		flagged = append(flagged, p.receive(e).spam)
	}
	s.react(e, flagged)
	return nil
}

// act reports or revokes on the engine whose verdict called for it.
func (s *simulation) act(ctx context.Context, e *event, r bulkhead.Report) error {
	run := s.runs[e.run]
	if err := s.turn(ctx, run); err != nil {
		return err
	}
	start := time.Now()
	defer func() { run.spent += time.Since(start) }()
	if e.kind == revokes {
		run.counts.Revokes++
		r.Vote = bulkhead.Revocation
		_, err := run.engine.Report(ctx, r)
		return err
	}
	run.counts.Reports++
	_, err := run.engine.Report(ctx, r)
	return err
}

// react schedules what the recipient does about each judge that called the message spam or
// not. The choices are the same for all, so they differ only where their verdicts do.
func (s *simulation) react(e *event, flagged []bool) {
	acts := s.rand.Float64() < s.opts.Share
	errs := s.rand.Float64() < s.opts.Mistakes
	at := e.at.Add(time.Duration((0.5 + s.rand.Float64()) * float64(s.opts.Delay)))
	for i, flagged := range flagged {
		switch {
		case e.letter.spam && !flagged && acts, !e.letter.spam && !flagged && errs:
			s.push(&event{at: at, letter: e.letter, site: e.site, kind: reports, run: i})
		case !e.letter.spam && flagged && acts:
			s.push(&event{at: at, letter: e.letter, site: e.site, kind: revokes, run: i})
		}
	}
}

// turn makes the engine open and drop generations at the same message in every run, however
// fast the machine is. The writer does that before it takes a request, so a request without
// effect is enough.
func (s *simulation) turn(ctx context.Context, run *replayRun) error {
	now := time.Unix(s.now.Load(), 0)
	slices := [2]int64{
		now.UnixNano() / int64(engine.DefaultTally().Generation),
		now.UnixNano() / int64(engine.DefaultBlocklist().Generation),
	}
	if slices == run.slices {
		return nil
	}
	run.slices = slices
	return run.engine.PutAccount(ctx, trust.Account{Name: siteName(0), Role: trust.Trusted, Weight: s.opts.Weight})
}

// close closes the engines and takes their last figures.
func (s *simulation) close(ctx context.Context, err error) error {
	for _, run := range s.runs {
		if run != nil {
			run.counts.StateBytes = run.engine.Info().Bytes
			err = errors.Join(err, run.engine.Close(ctx))
		}
	}
	return err
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
