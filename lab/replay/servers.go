package replay

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/trust"
	"github.com/bulkhead-mail/bulkhead/lab/figure"
)

// A ServersResult is what [RunServers] found: servers that share, compared with servers that
// do not. The command's --json prints its JSON form.
type ServersResult struct {
	Messages int          `json:"messages"`
	Spam     int          `json:"spam"` // deliveries, like the next
	Ham      int          `json:"ham"`
	First    time.Time    `json:"first"`
	Last     time.Time    `json:"last"`
	Rows     []ServersRow `json:"rows"`
}

// A ServersRow is the same mail through one number of servers.
type ServersRow struct {
	Servers int        `json:"servers"`
	Alone   ServersRun `json:"alone"`
	Shared  ServersRun `json:"shared"`
}

// A ServersRun is what the servers said together.
type ServersRun struct {
	Caught     int    `json:"caught"`      // spam called spam
	Suspected  int    `json:"suspected"`   // further spam suspected
	HamFlagged int    `json:"ham_flagged"` // ham called spam
	Reports    int    `json:"reports"`     // by recipients
	Revokes    int    `json:"revokes"`
	SentBytes  uint64 `json:"sent_bytes"` // of rounds, sent by all servers, each counted once
}

// PlotSVG draws the share of spam that was caught, with and without sharing, against the
// number of servers, as SVG.
func (r *ServersResult) PlotSVG(w io.Writer) error { return r.figure().Draw(w, "svg") }

// PlotPNG is [ServersResult.PlotSVG] as PNG.
func (r *ServersResult) PlotPNG(w io.Writer) error { return r.figure().Draw(w, "png") }

func (r *ServersResult) figure() *figure.Figure {
	alone := figure.Series{Label: "each alone", Color: figure.Palette(1), Shape: draw.BoxGlyph{}}
	shared := figure.Series{Label: "sharing", Color: figure.Palette(0), Shape: draw.CircleGlyph{}}
	f := &figure.Figure{
		Name: "servers", Title: fmt.Sprintf("%d deliveries of spam, split among servers", r.Spam),
		XLabel: "servers", YLabel: "spam caught, %", LogX: true, XTicks: []plot.Tick{}, LegendBottom: true, LegendLeft: true,
	}
	most := 1.0
	for _, row := range r.Rows {
		f.XTicks = append(f.XTicks, plot.Tick{Value: float64(row.Servers), Label: fmt.Sprint(row.Servers)})
		for s, run := range map[*figure.Series]*ServersRun{&alone: &row.Alone, &shared: &row.Shared} {
			s.Xs, s.Ys = append(s.Xs, float64(row.Servers)), append(s.Ys, 100*rate(run.Caught, r.Spam))
		}
	}
	f.Series = []figure.Series{shared, alone}
	for _, y := range slices.Concat(shared.Ys, alone.Ys) {
		most = max(most, y)
	}
	f.YMax = min(100, 10*math.Ceil(most/10)) // from 0, so that lengths can be compared
	return f
}

// exchangeEvery is how often servers that share exchange what they counted, in the mail's
// time: mesh.publish_interval and the time on the way.
const exchangeEvery = 2 * time.Second

// RunServers delivers the same mail to the same sites as [Run], which now
// belong to servers: each has a clearinghouse of its own. It does so for every
// given number of servers twice, without sharing and with it. Servers that
// share trust each other fully, and exchange rounds as nodes do. All choices of
// chance are the same in every run; what people do differs as verdicts do.
func RunServers(ctx context.Context, mail iter.Seq2[Mail, error], opts Options, servers []int) (*ServersResult, error) {
	if err := opts.Complete(); err != nil {
		return nil, err
	}
	for _, n := range servers {
		if n < 1 || n > opts.Sites {
			return nil, fmt.Errorf("replay: %d servers for %d sites, want 1 server or more, and a site or more for each", n,
				opts.Sites)
		}
	}
	letters, err := readReplay(ctx, mail, &opts)
	if err != nil {
		return nil, err
	}
	if len(letters) == 0 {
		return nil, fmt.Errorf("replay: no messages")
	}
	r := &ServersResult{Messages: len(letters), First: letters[0].time, Last: letters[len(letters)-1].time}
	for _, l := range letters {
		if l.spam {
			r.Spam += l.copies
		} else {
			r.Ham += l.copies
		}
	}
	for _, n := range servers {
		row := ServersRow{Servers: n}
		for _, share := range []bool{false, true} {
			f, err := newFleet(ctx, letters, &opts, n, share)
			if err == nil {
				err = f.run(ctx)
			}
			if err = errors.Join(err, f.close(ctx)); err != nil {
				return nil, err
			}
			if share {
				row.Shared = f.counts
			} else {
				row.Alone = f.counts
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return r, nil
}

// A fleet is the servers of one run.
type fleet struct {
	opts    *Options
	letters []*letter
	share   bool
	rand    *rand.Rand
	queue   queue
	order   int
	now     atomic.Int64 // the mail's clock, Unix seconds
	last    time.Time    // of the last exchange
	turned  [2]int64     // slices of time of both books
	engines []*engine.Engine
	changed []bool // since the last exchange
	counts  ServersRun
	done    int
}

func newFleet(ctx context.Context, letters []*letter, opts *Options, servers int, share bool) (*fleet, error) {
	f := &fleet{opts: opts, letters: letters, share: share, rand: rand.New(rand.NewPCG(opts.Seed, 0x73657276657273)),
		changed: make([]bool, servers)}
	f.now.Store(letters[0].time.Unix())
	tally := engine.DefaultTally()
	if tally.Capacity = opts.Capacity; tally.Capacity == 0 {
		tally.Capacity = capacityFor(letters, tally.Generation)
	}
	tally.Floor = opts.ShareFrom
	block := engine.DefaultBlocklist()
	block.Capacity = max(1000, tally.Capacity/4)
	block.Floor = opts.ShareVotesFrom
	for i := range servers {
		e, err := engine.Open(ctx, engine.Options{
			Secret: filter.Secret(replayKey), Tally: tally, Block: block, Votes: tally.Capacity, Threshold: opts.Threshold,
			NearMatch: opts.NearMatch,
			Now:       func() time.Time { return time.Unix(f.now.Load(), 0).UTC() },
		})
		if err != nil {
			return f, err
		}
		f.engines = append(f.engines, e)
		for site := range opts.Sites {
			if f.server(site) == i || site == 0 {
				err := e.PutAccount(ctx, trust.Account{Name: siteName(site), Role: trust.Trusted, Weight: opts.Weight})
				if err != nil {
					return f, err
				}
			}
		}
	}
	return f, f.introduce(ctx)
}

// server returns the server of a site.
func (f *fleet) server(site int) int { return site * len(f.changed) / f.opts.Sites }

func originName(server int) string { return fmt.Sprintf("server%d", server+1) }

// introduce makes the servers peers of each other.
func (f *fleet) introduce(ctx context.Context) error {
	if !f.share {
		return nil
	}
	for i, e := range f.engines {
		var others []engine.Origin
		for j := range f.engines {
			if j != i {
				others = append(others, engine.Origin{ID: originName(j), Weight: 1})
			}
		}
		if err := errors.Join(e.SetOrigins(ctx, others), e.Record(ctx, true)); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) run(ctx context.Context) error {
	stage := fmt.Sprintf("%d servers, alone", len(f.engines))
	if f.share {
		stage = fmt.Sprintf("%d servers, sharing", len(f.engines))
	}
	for _, l := range f.letters {
		if err := f.until(ctx, l.time); err != nil {
			return err
		}
		at := l.time
		for _, site := range f.rand.Perm(f.opts.Sites)[:l.copies] {
			f.push(&event{at: at, letter: l, site: site, kind: arrives})
			at = at.Add(time.Duration(f.rand.ExpFloat64() * float64(f.opts.Spread)))
		}
		f.done++
		f.opts.Progress(stage, f.done, len(f.letters))
	}
	return f.until(ctx, time.Time{})
}

func (f *fleet) push(e *event) {
	f.order++
	e.order = f.order
	heap.Push(&f.queue, e)
}

// until lets everything happen that is due before a time; the zero time means
// everything.
func (f *fleet) until(ctx context.Context, end time.Time) error {
	for len(f.queue) > 0 && (end.IsZero() || f.queue[0].at.Before(end)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		e := heap.Pop(&f.queue).(*event)
		f.now.Store(max(f.now.Load(), e.at.Unix()))
		err := f.turn(ctx)
		if err == nil {
			err = f.exchange(ctx, e.at)
		}
		if err == nil && len(e.letter.sigs) > 0 {
			err = f.happen(ctx, e)
		}
		if err != nil {
			return fmt.Errorf("replay: %s: %w", e.letter.name, err)
		}
	}
	return nil
}

// turn opens and drops generations at the same message at every server, as
// [simulation.turn] does.
func (f *fleet) turn(ctx context.Context) error {
	now := time.Unix(f.now.Load(), 0)
	slices := [2]int64{
		now.UnixNano() / int64(engine.DefaultTally().Generation),
		now.UnixNano() / int64(engine.DefaultBlocklist().Generation),
	}
	if slices == f.turned {
		return nil
	}
	// Earlier counts belong to the generation that ends.
	if err := f.tell(ctx); err != nil {
		return err
	}
	f.turned = slices
	for _, e := range f.engines {
		err := e.PutAccount(ctx, trust.Account{Name: siteName(0), Role: trust.Trusted, Weight: f.opts.Weight})
		if err != nil {
			return err
		}
	}
	return nil
}

// exchange has the servers share what they counted, if it is time.
func (f *fleet) exchange(ctx context.Context, at time.Time) error {
	if at.Sub(f.last) < exchangeEvery {
		return nil
	}
	f.last = at
	return f.tell(ctx)
}

func (f *fleet) tell(ctx context.Context) error {
	if !f.share {
		return nil
	}
	for i, from := range f.engines {
		if !f.changed[i] {
			continue
		}
		f.changed[i] = false
		rounds, _, err := from.TakeRounds(ctx)
		if err != nil {
			return err
		}
		var kept []engine.Part
		for _, p := range rounds {
			f.counts.SentBytes += uint64(len(p.Round))
			if from.Keeps(p.Array, p.Start) { // not expired while the mail paused
				kept = append(kept, p)
			}
		}
		for j, to := range f.engines {
			if j == i || len(kept) == 0 {
				continue
			}
			if err := apply(ctx, to, originName(i), kept); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply has a server take what another sent.
func apply(ctx context.Context, to *engine.Engine, origin string, parts []engine.Part) error {
	parsed := make([]engine.Parsed, len(parts))
	for i, p := range parts {
		var err error
		if parsed[i], err = to.ParsePart(p); err != nil {
			return err
		}
	}
	return to.ApplyRemote(ctx, origin, parsed)
}

// happen lets a message arrive at the server of its site, or a recipient act.
func (f *fleet) happen(ctx context.Context, e *event) error {
	server := f.server(e.site)
	home := f.engines[server]
	f.changed[server] = true
	who := bulkhead.Reporter{Account: siteName(e.site)}
	vote := bulkhead.Report{Signatures: e.letter.sigs, Vote: bulkhead.Spam, Reporter: who, Source: e.letter.source}
	switch e.kind {
	case reports:
		f.counts.Reports++
		_, err := home.Report(ctx, vote)
		return err
	case revokes:
		f.counts.Revokes++
		vote.Vote = bulkhead.Revocation
		_, err := home.Report(ctx, vote)
		return err
	}
	v, err := home.Check(ctx, bulkhead.Query{Signatures: e.letter.sigs, Source: e.letter.source, Reporter: who})
	if err != nil {
		return err
	}
	vote.Vote = bulkhead.Sighting
	if _, err := home.Report(ctx, vote); err != nil {
		return err
	}
	acts := f.rand.Float64() < f.opts.Share
	errs := f.rand.Float64() < f.opts.Mistakes
	at := e.at.Add(time.Duration((0.5 + f.rand.Float64()) * float64(f.opts.Delay)))
	if e.letter.spam && v.Class == bulkhead.ClassSuspected {
		f.counts.Suspected++
	}
	switch flagged := v.Spam(); {
	case flagged && e.letter.spam:
		f.counts.Caught++
	case flagged:
		f.counts.HamFlagged++
		if acts {
			f.push(&event{at: at, letter: e.letter, site: e.site, kind: revokes})
		}
	case e.letter.spam && acts, !e.letter.spam && errs:
		f.push(&event{at: at, letter: e.letter, site: e.site, kind: reports})
	}
	return nil
}

func (f *fleet) close(ctx context.Context) (err error) {
	for _, e := range f.engines {
		err = errors.Join(err, e.Close(ctx))
	}
	return err
}
