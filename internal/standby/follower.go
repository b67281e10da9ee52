package standby

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// CopyFolder is the folder in the data folder with a complete copy of the first node's store, which the next
// start of the node takes in place of its own.
const CopyFolder = "store.copy"

// An Applier applies what the first node has decided.
type Applier struct {
	// Entries makes entries durable and applies them.
	Entries func(context.Context, []store.Entry) error
	// File takes a file over. It refuses names that are not among the ones that a first node sends.
	File func(context.Context, File) error
	// Rest applies what a shared journal has beyond the entries of the first node, while that is not followed; nil: there
	// is no shared journal.
	Rest func(context.Context) error
}

// ErrCopied means that a new copy of the first node's store is complete, and that the node has to be opened
// again with it.
var ErrCopied = errors.New("standby: the copy of the store is complete")

// errRefused means that the other node does not serve this one.
var errRefused = errors.New("standby: the other node refuses")

// A Follower is the side of a pair that follows: the second node. Its methods may be called concurrently.
type Follower struct {
	o     Options // Store may be nil while there is none
	apply Applier

	mu     sync.Mutex
	status Status
	state  State
	taking bool // TakeOver was called
	gaveUp bool // Decline was called, and the first node does not know it yet
}

// NewFollower returns a follower that is not connected. With no store in o it can only copy one.
func NewFollower(o Options, apply Applier) *Follower {
	return &Follower{o: o, apply: apply, state: o.State, status: Status{Role: Second, Address: o.State.Address}}
}

// Status returns the present state.
func (f *Follower) Status() Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Term, s.Copied = f.term(), f.last()
	s.Last = max(s.Last, s.Copied)
	return s
}

func (f *Follower) last() uint64 {
	if f.o.Store == nil {
		return 0
	}
	return f.o.Store.LastIndex()
}

// term returns the term that this node knows. f.mu is held.
func (f *Follower) term() uint64 {
	n, _ := f.o.Term()
	return max(n, f.state.Term)
}

// retryEvery is the time between two connections to the first node.
const retryEvery = time.Second

// Run follows the first node until ctx ends, connecting again whenever the connection is lost. It returns
// nil then, and [ErrCopied] or an error of the own disk before.
func (f *Follower) Run(ctx context.Context) error {
	logged := ""
	for {
		err := f.Once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrCopied) {
			return err
		}
		f.note(func(s *Status) {
			if s.Connected || err != nil && err.Error() != logged {
				f.o.Log.Warn("the first node is not followed at present", "address", s.Address, "err", err,
					"consequence", "this node answers checks by what it has, and refuses votes",
					"hint", "if the first node is dead, run \"bulkhead promote\" here")
			}
			s.Connected, s.Copying = false, false
			if err != nil {
				s.Problem, logged = err.Error(), err.Error()
			}
			if errors.Is(err, bulkhead.ErrMalformed) || errors.Is(err, errRefused) {
				s.Refused++
			}
		})
		if f.apply.Rest != nil {
			if err := f.apply.Rest(ctx); err != nil && ctx.Err() == nil {
				f.note(func(s *Status) { s.Problem = err.Error() })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryEvery):
		}
	}
}

// Once follows the first node until the connection ends.
func (f *Follower) Once(ctx context.Context) error {
	f.mu.Lock()
	state := f.state
	h := hello{Version: wireVersion, Follow: true, Role: Second, Term: f.term(), Source: state.Source, Last: f.last(),
		Token: state.Token, Port: f.o.Port, GaveUp: f.gaveUp && !f.taking}
	f.mu.Unlock()
	h.Unlinked = f.o.Store != nil && f.o.Linked != nil && !f.o.Linked()
	if f.o.History != nil {
		taken := f.o.History.Taken()
		h.History = &taken
	}
	conn, err := f.o.Key.dial(ctx, state.Address, state.Peer)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	w := &wire{conn: conn, limit: maxFrame}
	if err := w.sendJSON(frameHello, &h); err != nil {
		return err
	}
	reply, err := w.receiveWelcome(h.Term)
	if err == nil && h.GaveUp {
		f.mu.Lock()
		f.gaveUp = false
		f.mu.Unlock()
	}
	switch {
	case err != nil:
		return err
	case reply.Problem != "" || reply.Role != First:
		return fmt.Errorf("%w: its role is %.20q: %.300s", errRefused, reply.Role, reply.Problem)
	case reply.Term < h.Term:
		return fmt.Errorf("%w: its term is %d, this node's %d", errRefused, reply.Term, h.Term)
	case !reply.Copy && (f.o.Store == nil || reply.Incarnation != state.Source):
		return fmt.Errorf("%w: it sends entries of another store than this node has", errRefused)
	}
	if state.Token != "" { // the other node knows this one's key now
		if err := f.change(func(s *State) { s.Token = "" }); err != nil {
			return err
		}
	}
	if reply.Copy {
		return f.copy(ctx, w, &reply)
	}
	return f.follow(ctx, w, &reply)
}

// change changes and keeps the state.
func (f *Follower) change(do func(*State)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := f.state
	do(&next)
	if err := f.o.Paired(next); err != nil {
		return err
	}
	f.state = next
	return nil
}

func (f *Follower) note(change func(*Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

// follow applies entries until the connection ends.
func (f *Follower) follow(ctx context.Context, w *wire, reply *welcome) error {
	f.o.Log.Info("following the first node", "address", w.conn.RemoteAddr().String(), "term", reply.Term,
		"behind", reply.Last-min(reply.Last, f.last()))
	f.note(func(s *Status) {
		s.Connected, s.Copying, s.Problem, s.Last, s.Heard = true, false, "", reply.Last, time.Now()
	})
	history, end := f.takeHistory()
	defer end()
	for {
		kind, content, err := w.receive()
		if err != nil {
			return err
		}
		last := f.last()
		switch kind {
		case frameFile:
			err = f.file(ctx, content)
		case frameEntries:
			var entries []store.Entry
			if entries, err = parseEntries(append([]byte(nil), content...), last); err == nil && len(entries) > 0 {
				err = f.apply.Entries(ctx, entries)
			}
		case frameHistory:
			var rows []store.Entry
			if rows, err = parseHistory(append([]byte(nil), content...)); err == nil {
				history <- rows
			}
		case frameBeat:
			var index uint64
			index, err = parseIndex(content)
			f.note(func(s *Status) { s.Last = max(s.Last, index) })
		default:
			err = fmt.Errorf("standby: %w: a frame of kind %q", bulkhead.ErrMalformed, kind)
		}
		if err != nil {
			return err
		}
		last = f.last()
		f.note(func(s *Status) {
			s.Heard, s.Last = time.Now(), max(s.Last, last)
			if last >= s.Last {
				s.Current = s.Heard
			}
		})
		if err := w.sendIndex(frameAck, last); err != nil {
			return err
		}
	}
}

// takeHistory returns a channel for entries of the history. They are taken beside the entries of the journal, which
// must not wait for them. end waits until all are taken.
func (f *Follower) takeHistory() (history chan<- []store.Entry, end func()) {
	ch, done := make(chan []store.Entry, 16), make(chan struct{})
	go func() {
		defer close(done)
		failed := false
		for rows := range ch {
			if f.o.History == nil {
				continue // it was not asked for
			}
			err := f.o.History.Take(rows)
			if err != nil && !failed {
				f.o.Log.Warn("the first node's history cannot be copied", "err", err,
					"consequence", "after a take-over, votes are not joined with the deliveries that the first node saw")
			}
			failed = err != nil
		}
	}()
	return ch, func() {
		close(ch)
		<-done
	}
}

func (f *Follower) file(ctx context.Context, content []byte) error {
	file, err := parseFile(content)
	if err != nil {
		return err
	}
	return f.apply.File(ctx, file)
}

// copy receives a copy of the first node's store.
func (f *Follower) copy(ctx context.Context, w *wire, reply *welcome) error {
	f.note(func(s *Status) { s.Copying, s.Last, s.Heard = true, reply.Last, time.Now() })
	f.o.Log.Info("copying the state of the first node", "address", w.conn.RemoteAddr().String(), "last_entry", reply.Last)
	target := filepath.Join(f.o.Dir, CopyFolder)
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	from, to := io.Pipe()
	restored := make(chan error, 1)
	go func() {
		_, err := store.Restore(ctx, from, target, store.Options{Logger: f.o.Log})
		from.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		restored <- err
	}()
	err := f.receiveCopy(ctx, w, to)
	to.CloseWithError(err) // io.EOF for nil
	if rerr := <-restored; rerr != nil {
		return errors.Join(err, rerr)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(target))
	}
	if err := f.change(func(s *State) { s.Source, s.Term = reply.Incarnation, max(s.Term, reply.Term) }); err != nil {
		return err
	}
	return ErrCopied
}

func (f *Follower) receiveCopy(ctx context.Context, w *wire, to io.Writer) error {
	for {
		kind, content, err := w.receive()
		if err != nil {
			return err
		}
		f.note(func(s *Status) { s.Heard = time.Now() })
		switch kind {
		case frameFile:
			err = f.file(ctx, content)
		case frameCopy:
			_, err = to.Write(content)
		case frameCopied:
			return nil
		default:
			err = fmt.Errorf("standby: %w: a frame of kind %q in a copy", bulkhead.ErrMalformed, kind)
		}
		if err != nil {
			return err
		}
	}
}

func (f *Follower) admits(public string) bool { return public == f.o.State.Peer }

// answer answers a first node that was replaced, and asks.
func (f *Follower) answer(_ context.Context, conn *tls.Conn, admit func() error) error {
	if err := admit(); err != nil {
		return err
	}
	w := &wire{conn: conn, limit: maxHello}
	f.mu.Lock()
	term := f.term()
	f.mu.Unlock()
	h, err := w.receiveHello(term)
	if err != nil {
		return err
	}
	_, from := f.o.Term()
	f.mu.Lock()
	reply := welcome{Version: wireVersion, Role: Second, Term: f.term(), From: from, Last: f.last(), TakesOver: f.taking}
	f.mu.Unlock()
	if h.Follow {
		reply.Problem = "this node follows as well"
	}
	return w.sendJSON(frameWelcome, &reply)
}

// handOver limits the time for the last entries of a first node that lives.
const handOver = 5 * time.Second

// TakeOver asks a first node that lives to decide nothing more, and waits until this node has its last
// entries. A first node that asks from now on learns that it must not go on alone. complete reports whether
// this node has the last entries; it is false if the first node is dead.
func (f *Follower) TakeOver(ctx context.Context) (complete bool) {
	ctx, cancel := context.WithTimeout(ctx, handOver)
	defer cancel()
	f.mu.Lock()
	f.taking, f.gaveUp = true, false
	state := f.state
	h := hello{Version: wireVersion, Role: Second, TakeOver: true, Term: f.term(), Port: f.o.Port}
	f.mu.Unlock()
	reply, err := ask(ctx, f.o.Key, &state, h)
	if err != nil || reply.Role != First {
		return false
	}
	for f.last() < reply.Last {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
	f.awaitHistory(ctx, reply.History)
	return true
}

// awaitHistory waits for the last entries of the history of a first node that hands over. They are worth less than
// a second.
func (f *Follower) awaitHistory(ctx context.Context, last uint64) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for f.o.History != nil && f.o.History.Taken() < last {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// MayTakeOver reports whether this node should take over without a command: the first node is silent for
// longer than a time, its lease is over, and this node has all that the first one acknowledged.
func (f *Follower) MayTakeOver(l Lease, silent time.Duration) bool {
	f.mu.Lock()
	copied := f.state.Source != "" && !f.status.Copying
	quiet := time.Since(f.status.Heard) > silent
	term := f.term()
	f.mu.Unlock()
	return copied && quiet && l.Free(term)
}

// Decline takes back that this node takes over. The first node decides again once this one follows it.
func (f *Follower) Decline() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taking, f.gaveUp = false, true
}

// TakeCopy puts a complete copy of the first node's store in the place of the node's own, before the node is
// opened. An own store that is no copy is moved to the folder aside. moved reports whether there was one.
func TakeCopy(dir, aside string, s *State) (moved bool, err error) {
	from, to := filepath.Join(dir, CopyFolder), filepath.Join(dir, "store")
	if _, err := os.Stat(from); err != nil || s.Source == "" {
		return false, nil
	}
	if _, err := os.Stat(to); err == nil {
		if moved, err = s.clear(to, aside); err != nil {
			return moved, err
		}
	}
	return moved, os.Rename(from, to)
}

// clear removes the store in the folder path. It keeps one that is no copy.
func (s *State) clear(path, aside string) (moved bool, err error) {
	if s.Role == Second && s.Note != StoodDown {
		return false, os.RemoveAll(path)
	}
	if err := wholefile.MakeFolder(aside); err != nil {
		return false, err
	}
	return true, os.Rename(path, filepath.Join(aside, "store"))
}

// StoodDown is the note of a node that was the first and follows now: its own store has not been replaced
// by a copy yet.
const StoodDown = "stood down"
