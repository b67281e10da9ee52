package standby

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/standby/lease"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// Options are the settings of a node of a pair.
type Options struct {
	Dir   string // the data folder
	Key   *Key
	State State
	// Port is where this node listens for the other one.
	Port  string
	Store *store.Store
	// Term returns the present term of the node's journal and its first entry.
	Term func() (number, from uint64)
	// Files returns the small files that the second node needs, or those that have changed since a set of
	// marks, which it updates.
	Files func(marks map[string]string) ([]File, error)
	// Fence is called when another node has begun a later term, whose first entry has the index from. It
	// returns once nothing is decided any more. It may be called several times.
	Fence func(term, from uint64)
	// StandDown ends all decisions. It returns once the last entry is in the journal.
	StandDown func()
	// Resume is called when the other node could not take over, after StandDown. The node has to be opened again then.
	Resume func()
	// Paired is called with the state that changes when the other node's key or address becomes known.
	Paired func(State) error
	// Wait limits the time for which the first node waits for the second. Alone: it then goes on by
	// itself, and otherwise it decides nothing. Each: it waits for the second node with each entry.
	Wait        time.Duration
	Alone, Each bool
	// Linked reports whether the state is known to come from a journal that both nodes read, see [Applier].Rest. nil:
	// there is none.
	Linked func() bool
	// Lease returns the lease of the pair; nil if the pair has none, or is not known yet.
	Lease func() Lease
	// Keep is how many bytes of entries that a checkpoint covers stay for a second node that lacks them, or as many as the
	// checkpoint has if these are more; 0: 1 GiB.
	Keep int64
	// History is copied to the second node as well; nil if there is none.
	History History
	Log     *slog.Logger
}

// A History is a node's record of messages. Each of its entries has an index, which is larger than those before. The
// second node needs it to join a vote with a delivery that the first node has seen.
type History interface {
	// CopyFrom returns the index after which a copy continues that ends with an index; 0 for an empty copy. It is a
	// later one if the copy lacks too much.
	CopyFrom(after uint64) (uint64, error)
	// After returns entries with larger indexes: all, or the oldest ones if they have more than the given bytes.
	After(after uint64, bytes int) ([]store.Entry, error)
	// Last returns the index of the last entry; 0 for none.
	Last() uint64
	// Take adds entries of the other node's history, and Taken returns the index of the last one of them.
	Take([]store.Entry) error
	Taken() uint64
}

// A Lease is held by at most one node of a pair at a time. [lease.Lease] implements it.
//
// [lease.Lease]: https://pkg.go.dev/github.com/bulkhead-mail/bulkhead/internal/standby/lease
type Lease interface {
	// Valid reports whether this node holds the lease. Renew and SetBehind try to make it so, and return
	// nil if it is so then. After SetBehind the second node does not take over by itself, until
	// ClearBehind was called and the lease was renewed.
	Valid() bool
	Renew(context.Context) error
	SetBehind(context.Context) error
	ClearBehind()
	// Release gives the lease up.
	Release(context.Context) error
	// Free reports whether the second node may take over from the first one, which decides in a term.
	Free(term uint64) bool
}

const (
	// followLimit is how many bytes of entries wait for a slow follower.
	followLimit = 256 << 20
	// keepLeast is the default of [Options].Keep: the journal of four checkpoints under the heaviest load.
	keepLeast = 1 << 30
)

// A Leader is the side of a pair that decides: the first node. Its methods may be called concurrently.
type Leader struct {
	o Options

	mu      sync.Mutex
	changed *sync.Cond
	status  Status
	streams int                // number of the present stream
	end     context.CancelFunc // ends the present stream; nil if there is none
	fenced  bool
	leaving bool          // the other node was let take over, or is about to
	alone   bool          // an entry was not confirmed in time; until the follower has caught up
	lone    uint64        // last entry that was acknowledged without the follower, under a lease
	asked   time.Time     // begin of the latest question for the other node's term that found no later one
	stalled stall         // of the latest entry that was not confirmed in time
	gone    chan struct{} // signalled when a stream has ended
	state   State
	keeps   uint64 // first entry that the other node may lack, see [Leader.keep]; 0: none
	dropped bool   // the other node lacks entries that are gone, which was logged
}

// A stall is a stream, and the last entry that its follower had confirmed when an entry was not confirmed in time.
type stall struct {
	stream int
	copied uint64
}

// NewLeader returns a leader without a follower.
func NewLeader(o Options) *Leader {
	l := &Leader{o: o, state: o.State, gone: make(chan struct{}, 1)}
	l.changed = sync.NewCond(&l.mu)
	l.status = Status{Role: First, Address: o.State.Address}
	if l.o.Keep == 0 {
		l.o.Keep = keepLeast
	}
	if o.State.Peer != "" { // what the other node has is not known yet
		l.keep(o.Store.FirstIndex())
	}
	return l
}

// keep keeps the entries from an index on for the other node, and returns the first of them that is there. The caller
// holds mu, or l is new.
func (l *Leader) keep(from uint64) (first uint64) {
	l.keeps, l.dropped = from, false
	return l.o.Store.Retain(from, l.o.Keep)
}

// needsCopy reports whether entries that the other node lacks are gone. The caller holds mu.
func (l *Leader) needsCopy() bool {
	return !l.status.Connected && !l.status.Copying && l.keeps > 0 && l.o.Store.FirstIndex() > l.keeps
}

// lookAtKept logs once that the other node needs a copy.
func (l *Leader) lookAtKept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.needsCopy() || l.dropped {
		return
	}
	l.dropped = true
	l.o.Log.Warn("entries that the standby lacks were dropped from the journal", "first", l.keeps,
		"consequence", "when the standby connects again, it is sent a copy of the whole state")
}

// Status returns the present state.
func (l *Leader) Status() Status {
	last := l.o.Store.LastIndex()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Last, s.Address = last, l.state.Address
	s.Term, _ = l.o.Term()
	if s.Connected && s.Copied >= last {
		s.Current = time.Now()
	}
	if l.needsCopy() {
		s.Problem = "the journal no longer has all entries that the standby lacks, so it needs a copy of the whole state"
	}
	return s
}

func (l *Leader) admits(public string) bool {
	l.mu.Lock()
	peer := l.state.Peer
	l.mu.Unlock()
	return public == peer || invited(l.o.Dir)
}

// answer serves one connection.
func (l *Leader) answer(ctx context.Context, conn *tls.Conn, admit func() error) error {
	w := &wire{conn: conn, limit: maxHello}
	term, from := l.o.Term()
	h, err := w.receiveHello(term)
	if err != nil {
		return err
	}
	if err := l.pair(conn, h); err != nil {
		return err
	}
	if err := admit(); err != nil {
		return err
	}
	reply := welcome{Version: wireVersion, Role: First, Term: term, From: from, Last: l.o.Store.LastIndex()}
	if h.Term > term {
		l.fence(h.Term, h.From)
		reply.Role = Second
		reply.Problem = "this node has learnt of a later term, and follows from now on"
		return w.sendJSON(frameWelcome, &reply)
	}
	if h.TakeOver {
		l.standDown()
		reply.Last = l.o.Store.LastIndex()
		if l.o.History != nil {
			reply.History = l.o.History.Last()
		}
		return w.sendJSON(frameWelcome, &reply)
	}
	if !h.Follow {
		return w.sendJSON(frameWelcome, &reply)
	}
	if h.GaveUp && l.hasLeft() {
		l.o.Log.Warn("the standby could not take over", "consequence", "this node decides again")
		defer l.o.Resume()
		reply.Problem = "this node begins to decide again"
		return w.sendJSON(frameWelcome, &reply)
	}
	if l.isFenced() {
		reply.Role, reply.Problem = Second, "this node has been replaced"
		return w.sendJSON(frameWelcome, &reply)
	}
	return l.stream(ctx, w, h, &reply)
}

// pair admits the other side by its key, or by its invitation, which makes its key the known one. It learns
// where the other side listens.
func (l *Leader) pair(conn *tls.Conn, h *hello) error {
	tlsState := conn.ConnectionState()
	public, err := publicOf(&tlsState)
	if err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.state
	if public != next.Peer {
		ok, err := redeem(l.o.Dir, h.Token)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("standby: %w: the invitation is not valid (any more)", bulkhead.ErrUnauthorised)
		}
		l.o.Log.Info("a standby was paired", "key", public[:16], "from", host)
		next.Peer, next.Note = public, "paired"
	}
	next.Role = First
	if h.Port != "" {
		next.Address = net.JoinHostPort(host, h.Port)
	}
	if next == l.state {
		return nil
	}
	if err := l.o.Paired(next); err != nil {
		return err
	}
	l.state = next
	return nil
}

// stream sends the state to the follower, until the connection or ctx ends.
func (l *Leader) stream(ctx context.Context, w *wire, h *hello, reply *welcome) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := l.begin(cancel)
	err := l.send(ctx, w, n, h, reply)
	l.ended(n, err)
	return err
}

func (l *Leader) send(ctx context.Context, w *wire, n int, h *hello, reply *welcome) error {
	entries := l.o.Store.Follow(followLimit)
	defer entries.Close()
	// An entry that was written before, and is not durable yet, would be among neither entries nor those that are
	// replayed. A store that fails has no further ones.
	_ = l.o.Store.Sync()
	m, durable := l.o.Store.Manifest(), l.o.Store.Durable()
	reply.Incarnation, reply.Last = m.Incarnation, durable
	same := h.Source == m.Incarnation
	reply.Copy = !same || l.keepFor(n, h.Last+1) > h.Last+1 || h.Unlinked && l.o.Linked != nil && l.o.Linked()
	// With a shared journal, the second node may have an entry first.
	if same && h.Last > durable && l.o.Linked == nil {
		reply.Problem = fmt.Sprintf("the standby has entries up to %d, and this node has lost those after %d: "+
			"promote the standby", h.Last, durable)
		l.o.Log.Error("the standby has entries that this node has lost", "last", durable, "of_standby", h.Last,
			"consequence", "this node is not followed", "hint", "stop this node and run \"bulkhead promote\" there")
	}
	if err := w.sendJSON(frameWelcome, reply); err != nil || reply.Problem != "" {
		return err
	}
	marks := make(map[string]string)
	if err := l.sendFiles(w, marks); err != nil {
		return err
	}
	if reply.Copy {
		return l.sendCopy(ctx, w, n)
	}
	l.note(n, func(s *Status) { s.Connected, s.Copied = true, h.Last })
	if err := l.accompanied(); err != nil {
		return err
	}
	var acks sync.WaitGroup
	defer acks.Wait()
	defer w.conn.Close() // ends receiveAcks
	acks.Go(func() { l.receiveAcks(w, n) })
	sent := h.Last
	// Entries that the follower lacks and that are not among those of Follow.
	var missed []store.Entry
	size := 0
	flush := func() error {
		err := l.sendEntries(w, marks, missed)
		missed, size = missed[:0], 0
		return err
	}
	err := l.o.Store.Replay(ctx, sent+1, func(index uint64, data []byte) error {
		if index > durable {
			return errCaughtUp
		}
		missed, sent = append(missed, store.Entry{Index: index, Data: append([]byte(nil), data...)}), index
		if size += len(data); size >= 4<<20 {
			return flush()
		}
		return nil
	})
	if err != nil && err != errCaughtUp {
		return err
	}
	if err := flush(); err != nil {
		return err
	}
	history := l.historyAfter(h)
	for {
		wait, err := history.send(w)
		if err != nil {
			return err
		}
		short, done := context.WithTimeout(ctx, wait)
		next, err := entries.Next(short)
		done()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			if err := l.sendFiles(w, marks); err != nil {
				return err
			}
			if err := w.sendIndex(frameBeat, l.o.Store.Durable()); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		for len(next) > 0 && next[0].Index <= sent {
			next = next[1:]
		}
		if len(next) == 0 {
			continue
		}
		if err := l.sendEntries(w, marks, next); err != nil {
			return err
		}
		sent = next[len(next)-1].Index
	}
}

const (
	// historyEvery is the longest time for which an entry of the history waits before it is sent.
	historyEvery = 250 * time.Millisecond
	historyPiece = 256 << 10 // bytes of the history in a frame, so that entries do not wait for long
)

// A historyTail sends what is added to a history. A nil historyTail sends nothing.
type historyTail struct {
	of   History
	sent uint64
	next time.Time // time of the next look
}

// historyAfter returns the tail that a follower lacks, nil if it takes none or there is none.
func (l *Leader) historyAfter(h *hello) *historyTail {
	if l.o.History == nil || h.History == nil {
		return nil
	}
	from, err := l.o.History.CopyFrom(*h.History)
	if err != nil {
		from = *h.History // the history is unavailable for now
	}
	return &historyTail{of: l.o.History, sent: from}
}

// send sends a piece of the history, if there is one. It returns the time until the next call.
func (t *historyTail) send(w *wire) (wait time.Duration, err error) {
	if t == nil {
		return beatEvery, nil
	}
	now := time.Now()
	if now.Before(t.next) {
		return t.next.Sub(now), nil
	}
	rows, err := t.of.After(t.sent, historyPiece)
	if err != nil || len(rows) == 0 { // an unreadable history does not keep the second node from following
		t.next = now.Add(historyEvery)
		return historyEvery, nil
	}
	t.sent = rows[len(rows)-1].Index
	return time.Millisecond, w.send(frameHistory, appendEntries(nil, rows))
}

var errCaughtUp = errors.New("standby: caught up")

// accompanied notes that a second node follows since the last take-over.
func (l *Leader) accompanied() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := l.state
	next.Solo = false
	if next == l.state {
		return nil
	}
	if err := l.o.Paired(next); err != nil {
		return err
	}
	l.state = next
	return nil
}

// mayGoOn reports whether the node may decide without the second one. The caller holds mu.
func (l *Leader) mayGoOn() bool { return (l.o.Alone || l.state.Solo) && !l.leaving && !l.fenced }

// sendEntries sends entries, after the files that have changed: an entry may need the network's secret that
// was written before it.
func (l *Leader) sendEntries(w *wire, marks map[string]string, entries []store.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	if err := l.sendFiles(w, marks); err != nil {
		return err
	}
	return w.send(frameEntries, appendEntries(nil, entries))
}

func (l *Leader) sendFiles(w *wire, marks map[string]string) error {
	files, err := l.o.Files(marks)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := w.sendFile(f); err != nil {
			return err
		}
	}
	return nil
}

// sendCopy sends a backup of the store. The follower then opens it, and connects again.
func (l *Leader) sendCopy(ctx context.Context, w *wire, n int) error {
	l.note(n, func(s *Status) { s.Copying, s.Copied = true, 0 }) // what the follower has is of another store
	// The copy has the entries up to here. The follower lacks later ones until it has opened the copy.
	l.keepFor(n, l.o.Store.LastIndex()+1)
	l.o.Log.Info("the standby is sent a copy of the whole state")
	began := time.Now()
	info, err := l.o.Store.Backup(ctx, copyWriter{w})
	if err == nil {
		err = w.send(frameCopied)
	}
	if err != nil {
		return err
	}
	l.o.Log.Info("the standby has a copy of the whole state", "last_entry", info.LastIndex,
		"took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// keepFor is keep on behalf of the stream n, unless a later one has begun.
func (l *Leader) keepFor(n int, from uint64) (first uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n != l.streams {
		return from
	}
	return l.keep(from)
}

type copyWriter struct{ w *wire }

func (c copyWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		piece := rest[:min(len(rest), 1<<20)]
		if err := c.w.send(frameCopy, piece); err != nil {
			return 0, err
		}
		rest = rest[len(piece):]
	}
	return len(p), nil
}

func (l *Leader) receiveAcks(w *wire, n int) {
	for {
		index, err := w.receiveAck()
		last := l.o.Store.LastIndex()
		if err == nil && index > last && l.o.Linked == nil {
			err = fmt.Errorf("standby: %w: entry %d is confirmed, and the last one is %d", bulkhead.ErrMalformed, index, last)
		}
		if err != nil {
			if errors.Is(err, bulkhead.ErrMalformed) {
				l.o.Log.Warn("the standby does not keep to the protocol", "err", err,
					"consequence", "its connection is closed")
				l.note(n, func(s *Status) { s.Refused++ })
			}
			w.conn.Close() // send fails
			return
		}
		l.note(n, func(s *Status) {
			s.Copied, s.Heard = max(s.Copied, index), time.Now()
			l.keep(s.Copied + 1)
			if s.Copied >= last {
				if lease := l.o.Lease(); lease != nil && s.Copied >= l.lone {
					lease.ClearBehind()
				}
				s.Current = s.Heard
				if l.alone {
					l.alone = false
					l.o.Log.Info("the standby has caught up", "entry", last)
				}
			}
		})
	}
}

// begin makes a new stream the present one, and ends the one before.
func (l *Leader) begin(cancel context.CancelFunc) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
	}
	l.end = cancel
	l.streams++
	l.status.Heard, l.status.Problem = time.Now(), ""
	return l.streams
}

// ended ends the stream n. The other node is away, if no later stream has begun.
func (l *Leader) ended(n int, err error) {
	l.note(n, func(s *Status) {
		was := s.Connected
		s.Connected, s.Copying = false, false
		l.end = nil
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Problem = err.Error()
		}
		if was && !l.fenced {
			l.o.Log.Warn("the standby is away", "err", err, "last_entry", s.Copied,
				"consequence", "a take-over now would lack what this node acknowledges from here on")
		}
	})
	select {
	case l.gone <- struct{}{}:
	default:
	}
}

// note changes the status on behalf of the stream n, unless a later one has begun.
func (l *Leader) note(n int, change func(*Status)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n != l.streams {
		return
	}
	change(&l.status)
	l.changed.Broadcast()
}

// standDown ends all decisions, because the other node is about to take over.
func (l *Leader) standDown() {
	l.mu.Lock()
	l.leaving = true
	l.mu.Unlock()
	l.o.StandDown()
	if lease := l.o.Lease(); lease != nil {
		ctx, done := context.WithTimeout(context.Background(), answerWithin)
		defer done()
		_ = lease.Release(ctx) // its time ends by itself
	}
	l.logLeaving()
}

func (l *Leader) logLeaving() {
	l.o.Log.Warn("the standby takes over", "consequence", "this node decides nothing from now on",
		"hint", "if the standby dies now, restart this node")
}

// hasLeft reports whether this node lets the other one take over.
func (l *Leader) hasLeft() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaving && !l.fenced
}

func (l *Leader) isFenced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fenced
}

// fence ends the node's term: another node decides.
func (l *Leader) fence(term, from uint64) {
	l.mu.Lock()
	l.fenced = true // before Fence, so that nothing is acknowledged while it runs
	if l.end != nil {
		l.end()
	}
	l.changed.Broadcast()
	l.mu.Unlock()
	l.o.Fence(term, from)
}

var errAway = fmt.Errorf("%w: the standby does not confirm, and this node must not go on alone", bulkhead.ErrReadOnly)

// MayDecide implements engine.Standby.
func (l *Leader) MayDecide() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.fenced:
		return fmt.Errorf("%w: %w", bulkhead.ErrReadOnly, ErrFenced)
	case l.leaving:
		return errLeaving
	case l.status.Connected:
		return nil
	case !l.mayGoOn():
		return errAway
	}
	if lease := l.o.Lease(); lease != nil && !lease.Valid() {
		return errNoLease
	}
	return nil
}

var errNoLease = fmt.Errorf("%w: neither the standby nor the witness of the pair answers", bulkhead.ErrReadOnly)

// Confirm implements engine.Standby.
func (l *Leader) Confirm(index uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Each && (!l.alone || !l.mayGoOn()) {
		l.await(index)
	}
	if lease := l.o.Lease(); lease != nil {
		if err := l.underLease(lease, index); err != nil {
			return err
		}
	} else if l.o.Each {
		l.askBefore(index)
	}
	switch {
	case l.fenced:
		return fmt.Errorf("%w: %w", bulkhead.ErrReadOnly, ErrFenced)
	case l.status.Copied >= index:
		return nil
	case l.mayGoOn():
		l.goAlone()
		return nil
	}
	return errAway
}

// askBefore asks the other node for its term before an entry is acknowledged without it: for a process that was
// frozen, the time of await is over at once, and the node may have been replaced. The caller holds mu.
func (l *Leader) askBefore(index uint64) {
	for l.status.Copied < index && l.mayGoOn() && olderThan(l.asked, aloneFor) {
		l.mu.Unlock()
		ctx, done := context.WithTimeout(context.Background(), answerWithin)
		_ = l.Ask(ctx) // an unreachable node is no news
		done()
		l.mu.Lock()
	}
}

// underLease returns nil if an entry may be acknowledged: the other node has it, or this node holds the lease.
// The other node learns before that it may lack the entry, unless it follows, and no more was promised. The
// caller holds mu.
func (l *Leader) underLease(lease Lease, index uint64) error {
	if l.status.Copied >= index || !l.mayGoOn() {
		return nil
	}
	need := lease.SetBehind
	if !l.o.Each && l.status.Connected {
		need = lease.Renew
	} else {
		l.lone = max(l.lone, index)
	}
	l.mu.Unlock()
	ctx, done := context.WithTimeout(context.Background(), l.o.Wait)
	err := need(ctx)
	done()
	l.mu.Lock()
	if err == nil {
		return nil
	}
	l.await(index) // without the witness, the standby's word is enough
	if l.status.Copied < index {
		return err
	}
	return nil
}

// await waits, for a limited time, until a connected follower has an entry. A follower that has let one
// entry wait for that time, and has confirmed nothing since, is not waited for again. The caller
// holds mu.
func (l *Leader) await(index uint64) {
	if l.status.Connected && l.stalled == (stall{l.streams, l.status.Copied}) {
		return
	}
	late := false
	timer := time.AfterFunc(l.o.Wait, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		late = true
		l.changed.Broadcast()
	})
	defer timer.Stop()
	for l.status.Copied < index && !late && !l.fenced && l.status.Connected {
		l.changed.Wait()
	}
	if late && l.status.Copied < index {
		l.stalled = stall{l.streams, l.status.Copied}
	}
}

// olderThan reports whether a time is further back than d.
func olderThan(t time.Time, d time.Duration) bool { return lease.Elapsed(t) > d }

// goAlone notes that entries are acknowledged without the standby. The caller holds mu.
func (l *Leader) goAlone() {
	if l.o.Each && !l.alone {
		l.alone = true
		l.o.Log.Warn("the standby does not confirm", "last_confirmed", l.status.Copied,
			"consequence", "reports are acknowledged without it, and a take-over now would lack them")
	}
}

const (
	// fenceEvery is the time between two attempts of the first node to reach the other one.
	fenceEvery = time.Second
	// answerWithin is the time after which the other node counts as unreachable.
	answerWithin = time.Second
	// aloneFor is how long the node may acknowledge without the other one after it has asked for its term. A
	// node that is promoted while this one is frozen has tried to reach it for dialTimeout before, which
	// is longer: so this node asks again before it acknowledges anything.
	aloneFor = fenceEvery + answerWithin + 500*time.Millisecond
)

// Watch asks the other node for its term now and then, as long as it does not follow: this is how a
// node learns that it was replaced. It runs until ctx ends.
func (l *Leader) Watch(ctx context.Context) error {
	var open sync.WaitGroup
	defer open.Wait()
	tick := time.NewTicker(fenceEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.gone:
		case <-tick.C:
		}
		l.lookAtKept()
		l.mu.Lock()
		quiet := l.status.Connected || l.status.Copying || l.fenced || l.state.Peer == "" || l.state.Address == ""
		l.mu.Unlock()
		if quiet {
			continue
		}
		open.Go(func() { // beside the next one, so that a slow answer is waited for
			short, done := context.WithTimeout(ctx, dialTimeout)
			defer done()
			_ = l.Ask(short) // an unreachable node is no news
		})
	}
}

// errLeaving is why a first node decides nothing while the other one takes over.
var errLeaving = fmt.Errorf("%w: the standby takes over", bulkhead.ErrReadOnly)

// Ask states the term to the other node, and asks for its term. A later one fences this node. It returns an
// error that wraps [ErrFenced] then, and another one if the other node takes over or does not answer.
func (l *Leader) Ask(ctx context.Context) error {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	term, from := l.o.Term()
	h := hello{Version: wireVersion, Role: First, Term: term, From: from, Port: l.o.Port}
	began := time.Now()
	unreachable := time.AfterFunc(answerWithin, func() { l.hasAsked(began) })
	defer unreachable.Stop()
	reply, err := ask(ctx, l.o.Key, &state, h)
	switch {
	case err != nil:
		l.hasAsked(began)
		return err
	case reply.Term > term:
		l.fence(reply.Term, reply.From)
		return fmt.Errorf("%w: its term is %d, this node's %d", ErrFenced, reply.Term, term)
	}
	l.mu.Lock()
	was := l.leaving
	l.leaving = was || reply.TakesOver
	l.mu.Unlock()
	if reply.TakesOver {
		if !was {
			l.logLeaving()
		}
		return errLeaving
	}
	l.hasAsked(began)
	return nil
}

// hasAsked notes that the other node had no later term, or did not answer, when it was asked at a time.
func (l *Leader) hasAsked(began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if began.After(l.asked) {
		l.asked = began
	}
}

// ask sends a hello to the other node and returns its welcome.
func ask(ctx context.Context, key *Key, state *State, h hello) (reply welcome, err error) {
	conn, err := key.dial(ctx, state.Address, state.Peer)
	if err != nil {
		return reply, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	w := &wire{conn: conn, limit: maxHello}
	if err := w.sendJSON(frameHello, &h); err != nil {
		return reply, err
	}
	return w.receiveWelcome(h.Term)
}
