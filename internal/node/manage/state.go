package manage

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/calibration"
	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/engine/learned"
	"github.com/bulkhead-mail/bulkhead/internal/engine/verdict"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// stateAge is the maximum age of the node's description. Making it reads the arrays, which takes
// milliseconds.
const stateAge = time.Second

// StateOptions are the parts of a node that its description needs. All fields but Calibration are required.
type StateOptions struct {
	Dir     string // the data folder
	Version string // of the program
	Started time.Time
	Engine  *engine.Engine
	// Missing are the parts of the data folder that were missing at the start.
	Missing []string
	// Config returns the present configuration, Network the fingerprint of the network's secret,
	// Doors the open doors.
	Config  func() *config.Config
	Network func() string
	Doors   func() []admin.Door
	// Joined returns how votes were joined with their deliveries, nil if the node joins none.
	Joined func() *admin.Joined
	// Standby describes the node's part in a pair, nil if it is alone. Promote makes it the first.
	Standby func() *admin.Standby
	Promote func(context.Context) error
	// Journal describes the stream of the journal, nil if there is none.
	Journal func() *admin.Journal
	// Shards describes the map of the site's shards, nil if the node is no edge of such a site.
	Shards func() *admin.Shards
	// Calibration records what became of the decisions of the rules; nil on an edge.
	Calibration *calibration.House
}

// A State describes the node to the API: [api.Node]. Its methods may be called concurrently.
type State struct {
	opts StateOptions
	mu   sync.Mutex
	last admin.NodeState
	at   time.Time // of last; zero: last is outdated
}

// NewState returns the description of a node.
func NewState(o StateOptions) *State { return &State{opts: o} }

// State implements [api.Node].
func (s *State) State(context.Context) admin.NodeState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || clock.Since(s.at).Abs() > stateAge {
		s.last, s.at = s.describe(), clock.Now()
	}
	return s.last
}

func (s *State) describe() admin.NodeState {
	state := s.describeEngine()
	state.Disk = diskOf(s.opts.Dir)
	state.Standby, state.Journal, state.Shards = s.opts.Standby(), s.opts.Journal(), s.opts.Shards()
	arrays := []admin.MemoryOwner{{Name: "peers", Bytes: s.opts.Engine.RemoteMemory().Bytes}}
	for _, b := range state.Books {
		arrays = append(arrays, admin.MemoryOwner{Name: b.Name, Bytes: b.Bytes})
	}
	if state.Learned != nil {
		arrays = append(arrays, admin.MemoryOwner{Name: "words", Bytes: state.Learned.Bytes})
	}
	state.Memory = memoryOf(arrays)
	if state.Disk != nil {
		for _, b := range state.Books {
			state.Disk.Needed += b.Bytes
		}
		if state.Learned != nil {
			state.Disk.Needed += state.Learned.Bytes
		}
	}
	return state
}

func (s *State) describeEngine() admin.NodeState {
	cfg, info := s.opts.Config(), s.opts.Engine.Info()
	name := cfg.Node.Name
	if name == "" {
		name, _ = os.Hostname() // "" is as good as any other guess
	}
	return admin.NodeState{
		Learned: learnedState(cfg, &info.Learned, s.opts.Engine.Lessons()), Judgement: judgementState(cfg, info.Step),
		Name: name, Version: s.opts.Version, Network: s.opts.Network(), Started: s.opts.Started, Now: clock.Now().UTC(),
		Durability: cfg.Node.Durability, ReadOnly: info.Refusing, Threshold: info.Threshold,
		SetAside: setAsideState(s.opts.Engine.SetAside()),
		Ageing:   ageingState(s.opts.Engine.Ageing()), Mature: info.Mature, Accounts: info.Accounts, Doors: s.opts.Doors(),
		Doubts: Doubts(info.Doubts), Healed: Healings(info.Healings), Missing: s.opts.Missing, Joined: s.opts.Joined(),
		Counters: admin.Counters{
			Checks: info.Checks, Reports: info.Reports, Refused: info.Refused, Entries: info.Entries,
			Checkpoints: info.Checkpoints, Recoveries: info.Recoveries, Forgotten: info.Forgotten,
			Gatherings: info.Gatherings,
		},
		Books: []admin.Book{
			bookState("tally", info.Tally, time.Duration(cfg.Tally.Generation)),
			bookState("blocklist", info.Blocklist, time.Duration(cfg.Blocklist.Generation)),
		},
	}
}

// judgementState describes how careful the judgement is; nil on an edge.
func judgementState(cfg *config.Config, step verdict.Step) *admin.Judgement {
	if cfg.IsEdge() {
		return nil
	}
	n, of := step.Number()
	return &admin.Judgement{WantedLost: cfg.Judgement.WantedLost, Step: n, Steps: of}
}

// learnedState describes what the node has learnt; nil if it does not learn.
func learnedState(cfg *config.Config, s *learned.State, x *lesson.Exchange) *admin.Learned {
	if !cfg.Learn.Enabled || cfg.IsEdge() {
		return nil
	}
	return &admin.Learned{Reported: uint64(max(0, s.Reported)), Delivered: uint64(s.Delivered), Share: s.Share,
		Judges: s.Known >= learn.FirstReports, Bytes: s.Bytes, Together: togetherState(x)}
}

func togetherState(x *lesson.Exchange) *admin.Together {
	if x == nil {
		return nil
	}
	taught := x.Taught()
	out := &admin.Together{Taught: taught.Features, Waiting: taught.Waiting, Peers: []admin.Teacher{}}
	for _, p := range x.Class.State() {
		out.Peers = append(out.Peers, admin.Teacher{Key: p.ID, Reported: p.Reported, Delivered: p.Delivered,
			Words: p.Features, Tried: p.Tried, Hits: p.Hits, LeftOut: p.Condemns, Full: p.Full})
	}
	return out
}

// ageingState describes the ageing while it is held; nil while it is not.
func ageingState(a engine.Ageing) *admin.Ageing {
	if !a.Held {
		return nil
	}
	return &admin.Ageing{Newest: a.Newest.UTC(), Now: a.Now.UTC(), Clock: a.Clock.UTC(), Tally: a.Tally,
		Blocklist: a.Blocklist}
}

// Learn implements [api.Node].
func (s *State) Learn(ctx context.Context, who bulkhead.Reporter, sigs []bulkhead.Signature, features []string,
	spam bool) error {
	err := s.opts.Engine.Learn(ctx, who, sigs, features, spam)
	s.Renew()
	return err
}

// BringBack implements [api.Node].
func (s *State) BringBack(ctx context.Context) (opened, expired int, err error) {
	opened, expired, err = s.opts.Engine.BringBack(ctx)
	s.Renew()
	return opened, expired, err
}

// setAsideState describes the generations that have aged out lately.
func setAsideState(list []engine.AgedGeneration) (out []admin.SetAside) {
	for i := range list {
		start, name := list[i].Start()
		out = append(out, admin.SetAside{Book: name, Start: time.Unix(int64(start), 0).UTC()})
	}
	return out
}

// ConfirmClock implements [api.Node].
func (s *State) ConfirmClock(ctx context.Context) error {
	err := s.opts.Engine.ConfirmClock(ctx)
	s.Renew()
	return err
}

// Promote implements [api.Node].
func (s *State) Promote(ctx context.Context) error {
	err := s.opts.Promote(ctx)
	s.Renew()
	return err
}

// Renew makes the next description a new one, after a change of the node.
func (s *State) Renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Time{}
}

func bookState(name string, generations []engine.GenerationInfo, length time.Duration) admin.Book {
	b := admin.Book{Name: name, Generations: []admin.Generation{}}
	for _, g := range generations {
		out := admin.Generation{Start: g.Start, End: g.Start.Add(length), Capacity: g.Capacity}
		for _, a := range g.Arrays {
			out.Arrays = append(out.Arrays, admin.Array{
				Name: a.Name, Geometry: a.Geometry, Bytes: a.Bytes, Keys: a.Keys, Fill: a.Fill,
				Ghost: a.Ghost, Wrong: a.CountWrong, Bulk: a.BulkWrong,
			})
			b.Bytes += a.Bytes
		}
		b.Generations = append(b.Generations, out)
	}
	return b
}

// Healings converts the healings of the engine for the HTTP interface.
func Healings(list []engine.Healing) (out []admin.Healed) {
	for _, h := range list {
		if h.Peer == engine.Broker {
			h.Peer = admin.FromBroker
		}
		out = append(out, admin.Healed(h))
	}
	return out
}

// Doubts converts the doubts of the engine for the HTTP interface.
func Doubts(doubts []engine.Doubt) (out []admin.Doubt) {
	for i := range doubts {
		out = append(out, doubtOf(&doubts[i]))
	}
	return out
}

// doubtOf converts a doubt of the engine for the HTTP interface.
func doubtOf(d *engine.Doubt) admin.Doubt {
	c := admin.Doubt{Array: d.Array, Peer: d.Origin, Page: d.Page, Pages: d.Pages, Keys: d.Keys, First: d.First,
		Last: d.Last, Stale: d.Stale, Text: d.String()}
	if d.Start != 0 {
		c.Generation = time.Unix(int64(d.Start), 0).UTC().Format(time.RFC3339)
	}
	return c
}
