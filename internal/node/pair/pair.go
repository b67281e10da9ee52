// Package pair is a running node's part in a pair of which one node follows the other: its role, the files that
// the second node needs, take-over, and the lease. docs/standby.md has the design.
package pair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/node/metric"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/standby/lease"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// ErrReopen means that the role of the node in its pair has changed, and that the process should open the
// node again.
var ErrReopen = errors.New("node: the node's part in its pair has changed")

// Options are what a pair needs of its node.
type Options struct {
	Dir    string // the data folder
	Aside  string // folder for a store that is no copy
	Config config.Standby
	// Each: every entry waits for the second node (durability "standby").
	Each bool
	// Shared: the journal is in a stream that both nodes read, which lets one of them append.
	Shared bool
	Files  Files
	// History returns the history of messages; nil if there is none, or it is not open yet.
	History func() standby.History
	// Decide is called once the node has taken over.
	Decide func(context.Context)
	Log    *slog.Logger
}

// Files describes the small files of a data folder that a second node needs. Names are relative to the
// folder, with slashes.
type Files struct {
	// Names returns the names of those that exist. A file comes before the files that have to be written before it.
	// Copies reports whether a name is among the possible ones.
	Names  func() []string
	Copies func(name string) bool
	// Held reports whether a running node writes a file itself. Such files wait until it takes over.
	Held func(name string) bool
	// Own reports whether a file is a record of what happened at one node. The other node keeps its own and a copy of
	// this one, which is in OtherFolder.
	Own func(name string) bool
	// Changed is called when a file of a running node was written.
	Changed func(ctx context.Context, name string) error
}

// storeFolder is the folder of the store in the data folder.
const storeFolder = "store"

// errGaveUp is why a first node that has stood down is opened again.
var errGaveUp = errors.New("the standby could not take over")

// errFollows is why a second node decides nothing.
var errFollows = errors.New("this node follows another one, which takes votes")

// firstCopy is the longest time that the start of a new standby waits for the first node to answer.
const firstCopy = time.Minute

// A Pair is the node's part in its pair. It implements [engine.Standby]. Its methods may be called concurrently.
type Pair struct {
	o      Options
	log    *slog.Logger
	dir    string
	key    *standby.Key // nil: the node is alone
	port   string       // where this node listens
	set    config.Standby
	engine *engine.Engine
	store  *store.Store
	reopen chan error // receives why the node has to be opened again

	promoted chan struct{} // closed once the node has taken over

	mu     sync.Mutex
	follow *standby.Follower // nil on a first node
	end    func()            // ends following, and waits for it; nil while nothing follows
	resume func()            // follows again; nil before the node runs. The caller holds mu

	stateMu sync.Mutex // the last lock that is taken
	state   standby.State

	lead atomic.Pointer[standby.Leader] // nil on a second node
	door atomic.Pointer[standby.Door]   // nil before it is served

	lease  atomic.Pointer[lease.Lease] // nil without a witness, or before the other node is known
	leases chan *lease.Lease           // receives each new lease
}

// Open opens the node's part in a pair, before the data folder is opened. It takes a complete copy of the
// first node's store over, and waits for one if the node has no store.
func Open(ctx context.Context, o Options) (*Pair, error) {
	state, err := standby.LoadState(o.Dir)
	if err != nil {
		return nil, err
	}
	p := &Pair{o: o, log: o.Log, dir: o.Dir, set: o.Config,
		reopen: make(chan error, 1), promoted: make(chan struct{}), leases: make(chan *lease.Lease, 1), state: state}
	if p.set.Listen == "" {
		if state.Role == standby.Second {
			return nil, &config.Error{Key: "standby.listen", Detail: "this node is the standby of " + state.Address +
				", and has no address for it"}
		}
		return p, nil
	}
	if p.key, err = standby.OpenKey(p.dir); err != nil {
		return nil, err
	}
	_, p.port, _ = net.SplitHostPort(p.set.Listen) // config.Load has checked it
	if state.Role != standby.Second {
		return p, nil
	}
	if err := p.takeCopy(); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(p.dir, storeFolder)); errors.Is(err, fs.ErrNotExist) {
		if err := p.fetch(ctx); err != nil {
			return nil, err
		}
	}
	return p, p.ReleaseHeld()
}

// takeCopy puts a complete copy of the first node's store in the place of the node's own.
func (p *Pair) takeCopy() error {
	moved, err := standby.TakeCopy(p.dir, p.o.Aside, &p.state)
	if err != nil || p.state.Source == "" {
		return err
	}
	if moved {
		p.log.Warn("the store that this node had as the first of its pair was set aside", "folder", p.o.Aside,
			"hint", "remove it if entries_of_this_node_alone was 0 when the other node took over")
	}
	if p.state.Note == standby.StoodDown {
		p.state.Note = "copied"
		return p.state.Save(p.dir)
	}
	return nil
}

// fetch waits for the first copy of the first node's store.
func (p *Pair) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, firstCopy)
	defer cancel()
	f := standby.NewFollower(p.options(), standby.Applier{File: p.writeFile})
	p.log.Info("waiting for the state of the first node", "address", p.state.Address)
	var last error
	for ctx.Err() == nil {
		last = f.Once(ctx)
		if errors.Is(last, standby.ErrCopied) {
			return p.takeCopy()
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("node: the first node of the pair, %s, does not send its state: %w; the log of that node has the "+
		"reason: an invitation admits one node within an hour, and ends with the next invitation", p.state.Address, last)
}

// options returns the settings of both sides of the pair.
func (p *Pair) options() standby.Options {
	o := standby.Options{Dir: p.dir, Key: p.key, State: p.now(), Port: p.port, Store: p.store, Files: p.files,
		Fence: p.fenced, StandDown: p.standDown, Resume: func() { p.again(errGaveUp) }, Paired: p.paired,
		Wait:  time.Duration(p.set.Wait),
		Alone: !p.o.Each || p.set.Away == "alone", Each: p.o.Each,
		Lease: p.leaseOfPair, History: p.o.History(), Log: p.log,
		Term: func() (uint64, uint64) { return 0, 0 }}
	if p.engine != nil {
		if p.o.Shared {
			o.Linked = p.engine.Linked
		}
		o.Term = func() (uint64, uint64) {
			t := p.engine.Term()
			return t.Number, t.From
		}
	}
	return o
}

// paired keeps a state.
func (p *Pair) paired(s standby.State) error {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	if s.Peer != p.state.Peer {
		if err := p.openLease(s.Peer); err != nil {
			return err
		}
	}
	if err := s.Save(p.dir); err != nil {
		return err
	}
	p.state = s
	return nil
}

// now returns the present state.
func (p *Pair) now() standby.State {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	return p.state
}

// Second reports whether this is the second node of a pair. It is false for a nil Pair.
func (p *Pair) Second() bool { return p != nil && p.now().Role == standby.Second }

// Attach sets the options of the engine by the node's part in its pair. A nil Pair sets none.
func (p *Pair) Attach(st *store.Store, o *engine.Options) {
	if p == nil || p.key == nil {
		return
	}
	p.store = st
	switch s := p.now(); {
	case p.Second():
		o.Follow = errFollows
	case s.Peer != "":
		o.Term = max(s.Term, 1)
	}
	if p.o.Each || len(p.set.Witness) > 0 && !p.o.Shared {
		o.Standby = p
	}
}

// MayDecide implements [engine.Standby].
func (p *Pair) MayDecide() error {
	if l := p.lead.Load(); l != nil {
		return l.MayDecide()
	}
	return nil
}

// Confirm implements [engine.Standby].
func (p *Pair) Confirm(index uint64) error {
	if l := p.lead.Load(); l != nil {
		return l.Confirm(index)
	}
	return nil
}

// Start begins the node's part, after everything that the second node copies has been opened. It returns the
// listener for [Pair.Serve]; nil if the node is alone.
func (p *Pair) Start(ctx context.Context, e *engine.Engine) (net.Listener, error) {
	if p.key == nil {
		return nil, nil
	}
	p.engine = e
	if err := p.openLease(p.now().Peer); err != nil {
		return nil, &config.Error{Key: "standby.witness", Detail: err.Error()}
	}
	listener, err := net.Listen("tcp", p.set.Listen)
	if err != nil {
		return nil, &config.Error{Key: "standby.listen", Detail: err.Error()}
	}
	if p.Second() {
		apply := standby.Applier{Entries: e.Follow, File: p.takeFile}
		if p.o.Shared {
			apply.Rest = e.CatchUp
		}
		p.follow = standby.NewFollower(p.options(), apply)
	} else if err := p.begin(ctx); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	p.log.Info("this node is one of a pair", "listen", listener.Addr().String(), "role", p.now().Role,
		"term", e.Term().Number, "other", p.now().Address)
	return listener, nil
}

// begin makes the node the first of its pair, unless the other one is it in a later term.
func (p *Pair) begin(ctx context.Context) error {
	state := p.now()
	switch term, has := max(state.Term, 1), p.engine.Term(); {
	case has.Number < term:
		if err := p.engine.Promote(ctx, term); err != nil {
			return err
		}
	case has.Number > term && p.o.Shared && state.Peer != "":
		p.fenced(has.Number, has.From)
		return fmt.Errorf("%w: %w", ErrReopen, standby.ErrFenced)
	}
	lead := standby.NewLeader(p.options())
	p.lead.Store(lead)
	if l := p.lease.Load(); l != nil {
		p.hold(l)
	}
	if state.Peer == "" || state.Address == "" {
		return nil
	}
	switch err := lead.Ask(ctx); {
	case errors.Is(err, standby.ErrFenced):
		return fmt.Errorf("%w: %w", ErrReopen, err)
	case err != nil:
		p.log.Warn("the standby does not answer", "address", state.Address, "err", err,
			"consequence", "if it was promoted meanwhile, what this node takes from now on is set aside when they meet")
	}
	return nil
}

// Run follows the first node, on a second one, until ctx ends. It returns an error that wraps [ErrReopen] when
// the role has changed.
func (p *Pair) Run(ctx context.Context) error {
	p.mu.Lock()
	p.resume = func() { p.startFollowing(ctx) }
	if p.follow != nil {
		p.resume()
	}
	p.mu.Unlock()
	select {
	case <-ctx.Done():
		p.mu.Lock()
		end := p.end
		p.mu.Unlock()
		if end != nil {
			end()
		}
		return nil
	case err := <-p.reopen:
		return err
	}
}

// Watch asks the other node for its term while this node is the first, until ctx ends.
func (p *Pair) Watch(ctx context.Context) error {
	lead := p.lead.Load()
	if lead == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-p.promoted:
		}
		lead = p.lead.Load()
		_ = lead.Ask(ctx) // a dead node does not answer
	}
	return lead.Watch(ctx)
}

// startFollowing follows the first node until p.end is called. The caller holds p.mu.
func (p *Pair) startFollowing(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.follow.Run(ctx); err != nil {
			p.again(err)
		}
	}()
	p.end = func() {
		cancel()
		<-done
	}
}

// again makes Serve end with [ErrReopen].
func (p *Pair) again(why error) {
	select {
	case p.reopen <- fmt.Errorf("%w: %w", ErrReopen, why):
	default: // another reason was first
	}
}

// Serve answers the other node until ctx ends.
func (p *Pair) Serve(ctx context.Context, listener net.Listener) error {
	door := standby.NewDoor(p.key, func() standby.Side {
		if l := p.lead.Load(); l != nil {
			return l
		}
		return p.follow
	}, p.log)
	p.door.Store(door)
	return door.Serve(ctx, listener)
}

// fenced makes the node the second of its pair: the other node has begun a later term.
func (p *Pair) fenced(term, from uint64) {
	p.engine.StandDown(standby.ErrFenced)
	s := p.now()
	s.Role, s.Term, s.Source, s.Solo, s.Note = standby.Second, term, "", false, standby.StoodDown
	if err := p.paired(s); err != nil {
		p.log.Error("the node's part in its pair cannot be written", "err", err)
	}
	last := p.store.LastIndex()
	lone := uint64(0)
	if from > 0 && last >= from {
		lone = last - from + 1
	}
	p.log.Error("the other node of the pair has taken over", "term", term,
		"own_last_entry", last, "taken_over_from_entry", from, "entries_of_this_node_alone", lone,
		"consequence", "this node follows now, and takes no votes; its own store is kept in the folder set-aside")
	p.again(standby.ErrFenced)
}

// standDown ends all decisions of the engine, and returns once the last one is in the journal.
func (p *Pair) standDown() {
	p.engine.StandDown(errors.New("the standby takes over"))
	_ = p.engine.Settled(context.Background()) // the engine closes, and decides nothing either
}

// takeOverTries is how many terms a node tries to begin in one take-over.
const takeOverTries = 3

// Promote makes a node that follows decide in place of the first one.
func (p *Pair) Promote(ctx context.Context) error { return p.takeOver(ctx, true) }

// takeOver makes a node that follows decide in place of the first one. If ask is true, the first node is asked
// for its last entries.
func (p *Pair) takeOver(ctx context.Context, ask bool) error {
	if p.key == nil {
		return fmt.Errorf("%w: this node is not one of a pair", bulkhead.ErrMalformed)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.Second() || p.follow == nil {
		return fmt.Errorf("%w: this node decides already", bulkhead.ErrMalformed)
	}
	handed := false
	if ask { // a first node that lives stops first, and its last entries arrive
		handed = p.follow.TakeOver(ctx)
	}
	if p.end != nil {
		p.end()
		p.end = nil
	}
	before := p.now()
	s := before
	s.Role, s.Term, s.Source, s.Solo, s.Note = standby.First, max(s.Term, p.engine.Term().Number)+1, "", true, "promoted"
	var err error
	for range takeOverTries {
		if err = p.takeLease(ctx, s.Term); err != nil {
			break
		}
		if err := p.paired(s); err != nil {
			return err
		}
		err = p.engine.Promote(ctx, s.Term)
		if err == nil || p.engine.Term().Number < s.Term {
			break
		}
		s.Term = p.engine.Term().Number + 1 // the answer to the first entry of the term was lost
	}
	if err != nil {
		p.follow.Decline()
		if l := p.lease.Load(); l != nil {
			l.Pause()
		}
		err = errors.Join(err, p.paired(before))
		if p.resume != nil {
			p.resume()
		}
		return err
	}
	if l := p.lease.Load(); l != nil {
		p.hold(l)
	}
	p.lead.Store(standby.NewLeader(p.options()))
	p.follow = nil
	p.log.Warn("this node has taken over", "term", s.Term, "last_entry", p.store.LastIndex(), "handed_over", handed)
	close(p.promoted)
	p.o.Decide(ctx)
	return nil
}

// State describes the node's part in its pair; nil if it is alone.
func (p *Pair) State() *admin.Standby {
	s, ok := p.status()
	if !ok {
		return nil
	}
	state := &admin.Standby{Role: string(s.Role), Address: s.Address, Term: s.Term, Connected: s.Connected,
		Copying: s.Copying, Last: s.Last, Copied: s.Copied, Lag: s.Lag(), Age: s.Age(time.Now()).Seconds(),
		Heard: s.Heard.UTC(), Problem: s.Problem}
	if l := p.lease.Load(); l != nil {
		state.Witness = witnessState(l)
	}
	return state
}

// status returns the state of the pair; ok is false for a node that is alone.
func (p *Pair) status() (s standby.Status, ok bool) {
	if p == nil || p.key == nil || p.engine == nil {
		return s, false
	}
	if l := p.lead.Load(); l != nil {
		return l.Status(), true
	}
	p.mu.Lock()
	f := p.follow
	p.mu.Unlock()
	if f == nil {
		return s, false
	}
	return f.Status(), true
}

// Collector returns the metrics of the pair.
func (p *Pair) Collector() prometheus.Collector {
	var set metric.Set
	role := set.Gauge("bulkhead_standby_role", "1 for the part of the node in its pair: first or second.", "role")
	up := set.Gauge("bulkhead_standby_connected", "1 if the second node follows the first, or else 0.")
	lag := set.Gauge("bulkhead_standby_lag_entries", "Entries of the journal that the second node lacks.")
	age := set.Gauge("bulkhead_standby_lag_seconds", "For how long the second node has lacked entries.")
	refused := set.Counter("bulkhead_standby_refused_total",
		"Connections of strangers, and of a node that did not keep to the protocol of the pair.")
	held := set.Gauge("bulkhead_standby_lease",
		"1 if the node holds the lease of its pair, or else 0. Absent without a witness.")
	witness := set.Gauge("bulkhead_standby_witness_up",
		"1 if the witness of the pair has answered the last request, or else 0. Absent without a witness.")
	return set.Collector(func(ch chan<- prometheus.Metric) {
		s, ok := p.status()
		if !ok {
			return
		}
		role(ch, 1, string(s.Role))
		up(ch, metric.One(s.Connected))
		lag(ch, float64(s.Lag()))
		age(ch, s.Age(time.Now()).Seconds())
		n := s.Refused
		if door := p.door.Load(); door != nil {
			n += door.Refused()
		}
		refused(ch, float64(n))
		if l := p.lease.Load(); l != nil {
			held(ch, metric.One(l.Valid()))
			witness(ch, metric.One(l.Problem() == nil))
		}
	})
}

const (
	// heldFolder holds files of the first node that this node's own parts would overwrite while they run.
	heldFolder = standby.Folder + "/held"
	// OtherFolder holds the records of the other node of the pair, in the data folder.
	OtherFolder = standby.Folder + "/other"
	// ownEvery is the shortest time between two copies of a record. It may have megabytes, and strangers who fail to
	// log in make it grow.
	ownEvery = 30 * time.Second
)

// files returns the files that have changed since marks, in the order in which they are sent. Names has a file
// before the file that is written before it, such as the network's secret before the former secrets. Reading in
// this order and sending in the reverse one, the second node never has a secret without its predecessor.
func (p *Pair) files(marks map[string]string) (changed []standby.File, err error) {
	for _, name := range p.o.Files.Names() {
		file := filepath.Join(p.dir, filepath.FromSlash(name))
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > standby.MaxFile || !p.o.Files.Copies(name) {
			continue
		}
		mark := fmt.Sprint(info.ModTime().UnixNano(), info.Size())
		if marks[name] == mark {
			continue
		}
		if sent := name + " sent"; p.o.Files.Own(name) { // no name of a file ends so
			if last, err := time.Parse(time.RFC3339, marks[sent]); err == nil && time.Since(last) < ownEvery {
				continue
			}
			marks[sent] = time.Now().Format(time.RFC3339)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		marks[name] = mark
		changed = append(changed, standby.File{Name: name, Content: content})
	}
	slices.Reverse(changed)
	return changed, nil
}

// writeFile puts a file of the first node in its place, or holds it.
func (p *Pair) writeFile(_ context.Context, f standby.File) error {
	if !p.o.Files.Copies(f.Name) {
		return fmt.Errorf("node: %w: the first node sends a file %.80q", bulkhead.ErrMalformed, f.Name)
	}
	folder := ""
	switch {
	case p.o.Files.Held(f.Name):
		folder = heldFolder
	case p.o.Files.Own(f.Name):
		folder = OtherFolder
	}
	to := filepath.Join(p.dir, filepath.FromSlash(folder), filepath.FromSlash(f.Name))
	if err := wholefile.MakeFolder(filepath.Dir(to)); err != nil {
		return err
	}
	return wholefile.Replace(to, wholefile.Bytes(f.Content))
}

// ReleaseHeld puts held files in their places, before the parts that write them start.
func (p *Pair) ReleaseHeld() error {
	root := filepath.Join(p.dir, filepath.FromSlash(heldFolder))
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		to := filepath.Join(p.dir, rel)
		if err := wholefile.MakeFolder(filepath.Dir(to)); err != nil {
			return err
		}
		return os.Rename(file, to)
	})
}

// takeFile is writeFile for a node that runs.
func (p *Pair) takeFile(ctx context.Context, f standby.File) error {
	if err := p.writeFile(ctx, f); err != nil {
		return err
	}
	return p.o.Files.Changed(ctx, f.Name)
}
