package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/client/admin"
	"github.com/bulkhead-mail/bulkhead/internal/config"
	"github.com/bulkhead-mail/bulkhead/internal/engine"
	"github.com/bulkhead-mail/bulkhead/internal/node/doors"
	"github.com/bulkhead-mail/bulkhead/internal/node/manage"
	"github.com/bulkhead-mail/bulkhead/internal/standby"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// ErrReopen means that the role of the node in its pair has changed, and that the process should open the
// node again.
var ErrReopen = errors.New("node: the node's part in its pair has changed")

// errFollows is why a second node decides nothing.
var errFollows = errors.New("this node follows another one, which takes votes")

// firstCopy is the longest time that the start of a new standby waits for the first node to answer.
const firstCopy = time.Minute

// A pair is the node's part in a pair of which one node follows the other. It implements [engine.Standby].
type pair struct {
	log    *slog.Logger
	dir    string
	key    *standby.Key // nil: the node is alone
	port   string       // where this node listens
	wait   time.Duration
	alone  bool
	engine *engine.Engine
	store  *store.Store
	reopen chan error // receives why the node has to be opened again

	promoted chan struct{} // closed once the node has taken over

	mu     sync.Mutex
	follow *standby.Follower // nil on a first node
	end    func()            // ends following, and waits for it; nil while nothing follows

	stateMu sync.Mutex // the last lock that is taken
	state   standby.State

	lead atomic.Pointer[standby.Leader] // nil on a second node
}

// pairOf opens the node's part in a pair, before the data folder is opened. It takes a complete copy of the
// first node's store over, and waits for one if the node has no store.
func (n *core) pairOf(ctx context.Context, cfg *config.Config) error {
	state, err := standby.LoadState(n.dir)
	if err != nil {
		return err
	}
	p := &pair{log: n.log, dir: n.dir, wait: time.Duration(cfg.Standby.Wait), alone: cfg.Standby.Away == "alone",
		reopen: make(chan error, 1), promoted: make(chan struct{}), state: state}
	n.pair = p
	if cfg.Standby.Listen == "" {
		if state.Role == standby.Second {
			return &config.Error{Key: "standby.listen", Detail: "this node is the standby of " + state.Address +
				", and has no address for it"}
		}
		return nil
	}
	if p.key, err = standby.OpenKey(n.dir); err != nil {
		return err
	}
	_, p.port, _ = net.SplitHostPort(cfg.Standby.Listen) // config.Load has checked it
	if state.Role != standby.Second {
		return nil
	}
	if err := p.takeCopy(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(n.dir, StoreFolder)); errors.Is(err, fs.ErrNotExist) {
		if err := p.fetch(ctx); err != nil {
			return err
		}
	}
	return p.releaseHeld()
}

// takeCopy puts a complete copy of the first node's store in the place of the node's own.
func (p *pair) takeCopy() error {
	aside := asideFolder(p.dir)
	moved, err := standby.TakeCopy(p.dir, aside, &p.state)
	if err != nil || p.state.Source == "" {
		return err
	}
	if moved {
		p.log.Warn("the store that this node had as the first of its pair was set aside", "folder", aside)
	}
	if p.state.Note == standby.StoodDown {
		p.state.Note = "copied"
		return p.state.Save(p.dir)
	}
	return nil
}

// fetch waits for the first copy of the first node's store.
func (p *pair) fetch(ctx context.Context) error {
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
	return fmt.Errorf("node: the first node of the pair, %s, does not send its state: %w", p.state.Address, last)
}

// options returns the settings of both sides of the pair.
func (p *pair) options() standby.Options {
	o := standby.Options{Dir: p.dir, Key: p.key, State: p.now(), Port: p.port, Store: p.store, Files: p.files,
		Fence: p.fenced, StandDown: p.standDown, Paired: p.paired, Wait: p.wait, Alone: p.alone, Log: p.log,
		Term: func() (uint64, uint64) { return 0, 0 }}
	if p.engine != nil {
		o.Term = func() (uint64, uint64) {
			t := p.engine.Term()
			return t.Number, t.From
		}
	}
	return o
}

// paired keeps a state.
func (p *pair) paired(s standby.State) error {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	if err := s.Save(p.dir); err != nil {
		return err
	}
	p.state = s
	return nil
}

// now returns the present state.
func (p *pair) now() standby.State {
	p.stateMu.Lock()
	defer p.stateMu.Unlock()
	return p.state
}

func (p *pair) second() bool { return p != nil && p.now().Role == standby.Second }

// attach sets the options of the engine by the node's part in its pair.
func (p *pair) attach(st *store.Store, durable bool, o *engine.Options) {
	if p == nil || p.key == nil {
		return
	}
	p.store = st
	if p.second() {
		o.Follow = errFollows
	}
	if durable {
		o.Standby = p
	}
}

// MayDecide implements [engine.Standby].
func (p *pair) MayDecide() error {
	if l := p.lead.Load(); l != nil {
		return l.MayDecide()
	}
	return nil
}

// Confirm implements [engine.Standby].
func (p *pair) Confirm(index uint64) error {
	if l := p.lead.Load(); l != nil {
		return l.Confirm(index)
	}
	return nil
}

// startPair is the stage of a pair, after everything that it copies has been opened.
func (n *Node) startPair(ctx context.Context, st *stage) error {
	p := n.pair
	n.registry.MustRegister(pairCollector{p})
	if p.key == nil {
		return nil
	}
	p.engine = n.engine
	listener, err := net.Listen("tcp", n.cfg.Load().Standby.Listen)
	if err != nil {
		return &config.Error{Key: "standby.listen", Detail: err.Error()}
	}
	if p.second() {
		p.follow = standby.NewFollower(p.options(), standby.Applier{Entries: n.engine.Follow, File: n.takeFile})
	} else if err := n.begin(ctx); err != nil {
		return errors.Join(err, listener.Close())
	}
	n.log.Info("this node is one of a pair", "listen", listener.Addr().String(), "role", p.now().Role,
		"term", n.engine.Term().Number, "other", p.now().Address)
	st.tasks = []task{
		{name: "standby", run: func(ctx context.Context) error { return p.serve(ctx, listener) }, abandon: listener.Close},
		{name: "pair", run: n.runPair},
		{name: "term of the pair", run: p.watch},
	}
	return nil
}

// begin makes the node the first of its pair, unless the other one is it in a later term.
func (n *Node) begin(ctx context.Context) error {
	p := n.pair
	state := p.now()
	if term := max(state.Term, 1); n.engine.Term().Number < term {
		if err := n.engine.Promote(ctx, term); err != nil {
			return err
		}
	}
	lead := standby.NewLeader(p.options())
	p.lead.Store(lead)
	if state.Peer == "" || state.Address == "" {
		return nil
	}
	switch err := lead.Ask(ctx); {
	case errors.Is(err, standby.ErrFenced):
		return fmt.Errorf("%w: %w", ErrReopen, err)
	case err != nil:
		n.log.Warn("the standby does not answer", "address", state.Address, "err", err,
			"consequence", "if it was promoted meanwhile, what this node takes from now on is set aside when they meet")
	}
	return nil
}

// runPair is the task of the node's part in the pair.
func (n *Node) runPair(ctx context.Context) error {
	p := n.pair
	p.mu.Lock()
	if p.follow != nil {
		n.startFollowing(ctx)
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

// watch asks the other node for its term while this node is the first.
func (p *pair) watch(ctx context.Context) error {
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
func (n *Node) startFollowing(ctx context.Context) {
	p := n.pair
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
func (p *pair) again(why error) {
	select {
	case p.reopen <- fmt.Errorf("%w: %w", ErrReopen, why):
	default: // another reason was first
	}
}

// serve answers the other node.
func (p *pair) serve(ctx context.Context, listener net.Listener) error {
	return standby.Serve(ctx, listener, p.key, func() standby.Side {
		if l := p.lead.Load(); l != nil {
			return l
		}
		return p.follow
	}, p.log)
}

// fenced makes the node the second of its pair: the other node has begun a later term.
func (p *pair) fenced(term, from uint64) {
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
	p.log.Error("the other node of the pair has taken over: this node takes no votes from now on", "term", term,
		"own_last_entry", last, "taken_over_from_entry", from, "entries_of_this_node_alone", lone,
		"consequence", "this node follows now; its own store is kept in the folder set-aside")
	p.again(standby.ErrFenced)
}

// standDown ends all decisions of the engine, and returns once the last one is in the journal.
func (p *pair) standDown() {
	p.engine.StandDown(errors.New("the standby takes over"))
	_ = p.engine.Settled(context.Background()) // the engine closes, and decides nothing either
}

// Promote makes a node that follows decide in place of the first one.
func (n *Node) Promote(ctx context.Context) error {
	p := n.pair
	if p.key == nil {
		return fmt.Errorf("%w: this node is not one of a pair", bulkhead.ErrMalformed)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.second() || p.follow == nil {
		return fmt.Errorf("%w: this node decides already", bulkhead.ErrMalformed)
	}
	handed := p.follow.TakeOver(ctx) // a first node that lives stops first, and its last entries arrive
	if p.end != nil {
		p.end()
		p.end = nil
	}
	before := p.now()
	s := before
	s.Role, s.Term, s.Source, s.Solo, s.Note = standby.First, max(s.Term, n.engine.Term().Number)+1, "", true, "promoted"
	if err := p.paired(s); err != nil {
		return err
	}
	if err := n.engine.Promote(ctx, s.Term); err != nil {
		return errors.Join(err, p.paired(before))
	}
	p.lead.Store(standby.NewLeader(p.options()))
	p.follow = nil
	n.log.Warn("this node has taken over", "term", s.Term, "last_entry", n.store.LastIndex(), "handed_over", handed)
	close(p.promoted)
	if err := n.takeLimits(); err != nil {
		n.log.Warn("rate limits of the first node cannot be taken over", "err", err, "consequence", "they begin empty")
	}
	n.sharing.mu.Lock()
	defer n.sharing.mu.Unlock()
	if n.sharing.mesh == nil && !n.sharing.over {
		if err := n.openMesh(ctx); err != nil {
			n.log.Error("the node does not share", "err", err, "remedy", "restart it")
		}
	}
	return nil
}

// standbyState describes the node's part in its pair; nil if it is alone.
func (n *Node) standbyState() *admin.Standby {
	s, ok := n.pair.status()
	if !ok {
		return nil
	}
	return &admin.Standby{Role: string(s.Role), Address: s.Address, Term: s.Term, Connected: s.Connected,
		Copying: s.Copying, Last: s.Last, Copied: s.Copied, Lag: s.Lag(), Age: s.Age(time.Now()).Seconds(),
		Heard: s.Heard.UTC(), Problem: s.Problem}
}

// status returns the state of the pair; ok is false for a node that is alone.
func (p *pair) status() (s standby.Status, ok bool) {
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

// A pairCollector collects the metrics of a pair.
type pairCollector struct{ p *pair }

var (
	pairRole = prometheus.NewDesc("bulkhead_standby_role", "1 for the part of the node in its pair: first or second.",
		[]string{"role"}, nil)
	pairUp = prometheus.NewDesc("bulkhead_standby_connected",
		"1 if the second node follows the first, or else 0.", nil, nil)
	pairLag = prometheus.NewDesc("bulkhead_standby_lag_entries",
		"Entries of the journal that the second node lacks.", nil, nil)
	pairAge = prometheus.NewDesc("bulkhead_standby_lag_seconds",
		"For how long the second node has lacked entries.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (c pairCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pairRole, pairUp, pairLag, pairAge} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c pairCollector) Collect(ch chan<- prometheus.Metric) {
	s, ok := c.p.status()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	up := 0.0
	if s.Connected {
		up = 1
	}
	gauge(pairRole, 1, string(s.Role))
	gauge(pairUp, up)
	gauge(pairLag, float64(s.Lag()))
	gauge(pairAge, s.Age(time.Now()).Seconds())
}

// heldFolder holds files of the first node that this node's own parts would overwrite while they run.
const heldFolder = standby.Folder + "/held"

// copiedFiles returns the names of the small files of a data folder that a second node needs.
func copiedFiles(dir string) (names []string) {
	names = []string{networkKeyFile, pastKeysFile, sealKeyFile, AdminTokenFile, manage.WhitelistFile, doors.GreylistFile}
	for _, pattern := range []string{meshFolder + "/*", meshFolder + "/" + aggregateFolder + "/*", rateFolder + "/*"} {
		found, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern))) // the pattern is well-formed
		for _, f := range found {
			if rel, err := filepath.Rel(dir, f); err == nil {
				names = append(names, filepath.ToSlash(rel))
			}
		}
	}
	return names
}

// copies reports whether a second node takes a file of this name.
func copies(name string) bool {
	if strings.HasPrefix(path.Base(name), ".") || len(name) > standby.MaxName {
		return false
	}
	switch name {
	case networkKeyFile, pastKeysFile, sealKeyFile, AdminTokenFile, manage.WhitelistFile, doors.GreylistFile:
		return true
	}
	switch path.Dir(name) {
	case meshFolder, path.Join(meshFolder, aggregateFolder), rateFolder:
		return true
	}
	return false
}

// files returns the files that have changed since marks.
func (p *pair) files(marks map[string]string) (changed []standby.File, err error) {
	for _, name := range copiedFiles(p.dir) {
		file := filepath.Join(p.dir, filepath.FromSlash(name))
		info, err := os.Stat(file)
		if err != nil || !info.Mode().IsRegular() || info.Size() > standby.MaxFile || !copies(name) {
			continue
		}
		mark := fmt.Sprint(info.ModTime().UnixNano(), info.Size())
		if marks[name] == mark {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		marks[name] = mark
		changed = append(changed, standby.File{Name: name, Content: content})
	}
	return changed, nil
}

// held reports whether a running node writes a file itself.
func held(name string) bool { return path.Dir(name) == rateFolder || name == doors.GreylistFile }

// writeFile puts a file of the first node in its place, or holds it.
func (p *pair) writeFile(_ context.Context, f standby.File) error {
	if !copies(f.Name) {
		return fmt.Errorf("node: %w: the first node sends a file %.80q", bulkhead.ErrMalformed, f.Name)
	}
	to := filepath.Join(p.dir, filepath.FromSlash(f.Name))
	if held(f.Name) {
		to = filepath.Join(p.dir, filepath.FromSlash(heldFolder), filepath.FromSlash(f.Name))
	}
	if err := wholefile.MakeFolder(filepath.Dir(to)); err != nil {
		return err
	}
	return wholefile.Replace(to, wholefile.Bytes(f.Content))
}

// takeFile is writeFile for a node that runs.
func (n *Node) takeFile(ctx context.Context, f standby.File) error {
	if err := n.pair.writeFile(ctx, f); err != nil {
		return err
	}
	switch f.Name {
	case manage.WhitelistFile:
		return errors.Join(n.whitelist.Read(), n.whitelist.Renew())
	case networkKeyFile, pastKeysFile:
		n.secrets.mu.Lock()
		defer n.secrets.mu.Unlock()
		if err := n.loadSecrets(); err != nil {
			return err
		}
		past := n.secrets.past
		n.state.Renew()
		return n.engine.FollowSecrets(ctx, n.secret(), past.all, past.all[:past.former])
	}
	return nil
}

// releaseHeld puts held files in their places, before the parts that write them start.
func (p *pair) releaseHeld() error {
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

// takeLimits replaces the rate limits by the first node's.
func (n *Node) takeLimits() error {
	rules, err := rulesOf(n.cfg.Load())
	if err != nil {
		return err
	}
	if err := n.mta.limits.Reload(nil); err != nil { // otherwise its own states are kept
		return err
	}
	return errors.Join(n.pair.releaseHeld(), n.mta.limits.Reload(rules))
}

// Invite makes an invitation for a standby of the node of a data folder; see [standby.Invite].
func Invite(dir, address string, valid time.Duration) (string, error) {
	if err := ownFolder(dir); err != nil {
		return "", err
	}
	return standby.Invite(dir, address, valid)
}

// JoinPair makes the new node of a data folder the standby of another one; see [standby.Join]. It returns
// the address of the first node.
func JoinPair(dir, code string) (address string, err error) {
	if err := ownFolder(dir); err != nil {
		return "", err
	}
	c, err := standby.Join(dir, code)
	return c.Address, err
}
