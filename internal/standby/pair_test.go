package standby

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/standby/lease"
	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
	"github.com/bulkhead-mail/bulkhead/internal/testing/nodetest"
)

// A machine is a node of a pair without an engine: it appends what clients bring to its store.
type machine struct {
	t        *testing.T
	dir      string
	key      *Key
	door     *Door
	log      logtest.Log
	listener net.Listener
	wire     *nodetest.Wire // by which the other machine reaches this one
	alone    bool           // the node may go on alone
	witness  *nodetest.Wire // by which this machine reaches the witness; nil without one

	mu     sync.Mutex // held while a node opens and closes
	store  *store.Store
	lead   *Leader
	follow *Follower
	stop   func()
	term   *atomic.Pointer[[2]uint64] // of the store that is open
	lease  *lease.Lease               // nil without a witness
	down   atomic.Bool                // decides nothing
	reopen chan struct{}

	saving sync.Mutex // the last lock that is taken
	opened int        // how often the machine was opened or closed
}

func newMachine(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{t: t, dir: filepath.Join(t.TempDir(), name), reopen: make(chan struct{}, 1)}
	if err := os.Mkdir(m.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if m.key, err = OpenKey(m.dir); err != nil {
		t.Fatal(err)
	}
	if m.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	m.wire = nodetest.NewWire(t, m.listener.Addr().String())
	m.door = NewDoor(m.key, m.side, m.log.Logger())
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		err := m.door.Serve(ctx, m.listener)
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		m.close()
		cancel()
		serving.Wait()
	})
	return m
}

func (m *machine) side() Side {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lead != nil {
		return m.lead
	}
	if m.follow != nil {
		return m.follow
	}
	return closedSide{}
}

// A closedSide is a machine that is off.
type closedSide struct{}

func (closedSide) admits(string) bool { return false }

func (closedSide) answer(context.Context, *tls.Conn, func() error) error { return nil }

// open starts the node of the machine in the role that its state has.
func (m *machine) open() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := LoadState(m.dir)
	if err != nil {
		m.t.Fatal(err)
	}
	if s.Role == Second {
		if _, err := TakeCopy(m.dir, filepath.Join(m.dir, fmt.Sprint("aside", time.Now().UnixNano())), &s); err != nil {
			m.t.Fatal(err)
		}
		if s.Note == StoodDown && s.Source != "" {
			s.Note = "copied"
			if err := s.Save(m.dir); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	if m.store, err = store.Open(filepath.Join(m.dir, "store"), store.Options{}); err != nil {
		m.t.Fatal(err)
	}
	m.turn()
	m.term = new(atomic.Pointer[[2]uint64])
	m.term.Store(&[2]uint64{1, 0})
	m.down.Store(s.Role == Second)
	err = m.store.Replay(context.Background(), 1, func(index uint64, data []byte) error {
		m.note(store.Entry{Index: index, Data: data})
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	m.stop = func() {
		cancel()
		running.Wait()
	}
	m.openLease(s)
	if m.lease != nil {
		l := m.lease
		running.Go(func() { l.Run(ctx) })
		if s.Role == First {
			l.Hold(m.term.Load()[0])
		}
	}
	if s.Role == Second {
		f := NewFollower(m.options(s), Applier{Entries: m.apply, File: func(context.Context, File) error { return nil }})
		m.follow, m.lead = f, nil
		running.Go(func() {
			if err := f.Run(ctx); err != nil {
				m.again()
			}
		})
		return
	}
	m.lead, m.follow = NewLeader(m.options(s)), nil
	lead := m.lead
	running.Go(func() { _ = lead.Ask(ctx); _ = lead.Watch(ctx) })
}

func (m *machine) again() {
	select {
	case m.reopen <- struct{}{}:
	default:
	}
}

// close ends the node.
func (m *machine) close() {
	m.mu.Lock()
	stop := m.stop
	m.stop = nil
	m.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	m.turn()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lead, m.follow = nil, nil
	if err := m.store.Close(); err != nil {
		m.t.Error(err)
	}
}

// turn makes the node that is open, or was, unable to change the machine: the door is open for as long as the test
// runs, and may serve a connection of a former node later than that node's process would.
func (m *machine) turn() {
	m.saving.Lock()
	defer m.saving.Unlock()
	m.opened++
}

// errTurned is what a former node gets.
var errTurned = errors.New("the node was closed")

// guarded returns a function that runs change as long as the node that is open now is open.
func (m *machine) guarded() func(change func() error) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	opened := m.opened
	return func(change func() error) error {
		m.saving.Lock()
		defer m.saving.Unlock()
		if m.opened != opened {
			return errTurned
		}
		return change()
	}
}

func (m *machine) options(s State) Options {
	whileOpen, term := m.guarded(), m.term
	_, port, _ := net.SplitHostPort(m.wire.Address())
	held := func() Lease {
		if m.lease == nil {
			return nil
		}
		return m.lease
	}
	return Options{Dir: m.dir, Key: m.key, State: s, Port: port, Store: m.store, Wait: 200 * time.Millisecond,
		Each: true, Alone: m.alone, Lease: held,
		Term:  func() (uint64, uint64) { t := term.Load(); return t[0], t[1] },
		Files: func(map[string]string) ([]File, error) { return nil, nil },
		Fence: func(term, _ uint64) {
			err := whileOpen(func() error {
				m.down.Store(true)
				s, err := LoadState(m.dir)
				s.Role, s.Term, s.Source, s.Note = Second, term, "", StoodDown
				m.again()
				return errors.Join(err, s.Save(m.dir))
			})
			if err != nil && err != errTurned {
				m.t.Error(err)
			}
		},
		StandDown: func() {
			_ = whileOpen(func() error {
				m.down.Store(true)
				return nil
			})
		},
		Resume: m.again,
		Paired: func(s State) error { return whileOpen(func() error { return s.Save(m.dir) }) },
		Log:    slog.New(slog.DiscardHandler),
	}
}

// An entry of a machine is a number of a client, or the begin of a term.
const beginsTerm = 1 << 63

func (m *machine) note(e store.Entry) {
	if n := binary.BigEndian.Uint64(e.Data); n&beginsTerm != 0 {
		m.term.Store(&[2]uint64{n &^ beginsTerm, e.Index})
	}
}

func (m *machine) apply(_ context.Context, entries []store.Entry) error {
	if err := m.store.AppendAll(entries); err != nil {
		return err
	}
	for _, e := range entries {
		m.note(e)
	}
	return nil
}

// decide appends a client's number, and reports whether it was acknowledged.
func (m *machine) decide(n uint64) bool {
	m.mu.Lock()
	lead := m.lead
	if lead == nil || m.down.Load() || lead.MayDecide() != nil {
		m.mu.Unlock()
		return false
	}
	index, err := m.store.Append(binary.BigEndian.AppendUint64(nil, n))
	m.mu.Unlock()
	if err != nil {
		return false
	}
	err = lead.Confirm(index)
	if err != nil && !errors.Is(err, bulkhead.ErrReadOnly) {
		m.t.Errorf("entry %d: %v", index, err)
	}
	return err == nil
}

// acknowledged waits until a client's number is acknowledged, and returns it: first, or first+100 and so on, because
// a number that is not acknowledged in time is in the store nevertheless.
func (m *machine) acknowledged(first uint64) uint64 {
	m.t.Helper()
	n := first
	await.True(m.t, "an acknowledgement", func() bool {
		if m.decide(n) {
			return true
		}
		n += 100
		return false
	})
	return n
}

// promote makes the second node the first.
func (m *machine) promote() {
	m.t.Helper()
	m.mu.Lock()
	f := m.follow
	m.mu.Unlock()
	f.TakeOver(context.Background())
	last := m.term.Load()[0]
	m.begin(last)
}

// begin makes the node the first, in the term after last.
func (m *machine) begin(last uint64) {
	m.t.Helper()
	m.close()
	s, err := LoadState(m.dir)
	s.Role, s.Source, s.Solo, s.Term = First, "", true, max(s.Term, last)+1
	if err = errors.Join(err, s.Save(m.dir)); err != nil {
		m.t.Fatal(err)
	}
	st, err := store.Open(filepath.Join(m.dir, "store"), store.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	_, err = st.Append(binary.BigEndian.AppendUint64(nil, s.Term|beginsTerm))
	if err = errors.Join(err, st.Close()); err != nil {
		m.t.Fatal(err)
	}
	m.open()
}

func (m *machine) numbers() map[uint64]int {
	out := make(map[uint64]int)
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.store.Replay(context.Background(), 1, func(_ uint64, data []byte) error {
		out[binary.BigEndian.Uint64(data)]++
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return out
}

// TestPartitions cuts the network between both nodes in each direction, promotes the second one in the middle
// of it, closes and opens nodes, at random, while numbers are written. Neither node may go on alone. It
// checks that the pair comes together again, and that both nodes then have every number that was
// acknowledged, once: two nodes never acknowledged at once.
func TestPartitions(t *testing.T) {
	eachSeed(t, 6, 2, func(t *testing.T, seed uint64) { partitions(t, rand.New(rand.NewPCG(seed, 8))) })
}

var (
	schedules = flag.Int("schedules", 0, "random schedules of each test of partitions; 0: a few")
	firstSeed = flag.Uint64("seed", 0, "seed of the first one")
)

// eachSeed runs a random schedule for each of some seeds: as many as the flag states, or usual, or few in short mode.
func eachSeed(t *testing.T, usual, few int, run func(t *testing.T, seed uint64)) {
	n := usual
	if testing.Short() {
		n = few
	}
	if *schedules > 0 {
		n = *schedules
	}
	for i := range n {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if *schedules > 0 {
				t.Parallel() // they mostly wait
			}
			run(t, seed)
		})
	}
}

// follows opens nodes again that want it, and reports whether second has all of first.
func follows(first, second *machine) bool {
	for _, m := range []*machine{first, second} {
		select {
		case <-m.reopen:
			m.close()
			m.open()
		default:
		}
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	if first.lead == nil {
		return false
	}
	s := first.lead.Status()
	return s.Connected && s.Lag() == 0
}

// pairUp opens a first node and its second one.
func pairUp(t *testing.T) (a, b *machine) {
	t.Helper()
	a, b = newMachine(t, "a"), newMachine(t, "b")
	meetFirst(t, a, b)
	return a, b
}

// meetFirst makes b the second node of a.
func meetFirst(t *testing.T, a, b *machine) {
	t.Helper()
	a.open()
	text, err := Invite(a.dir, a.wire.Address(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Join(b.dir, text); err != nil {
		t.Fatal(err)
	}
	b.open()
	await.True(t, "a standby that has everything", func() bool { return follows(a, b) })
}

func partitions(t *testing.T, rng *rand.Rand) {
	a, b := pairUp(t)
	first, second := a, b
	meet := func() {
		t.Helper()
		if !await.Within(await.Patience, func() bool { return follows(first, second) }) {
			t.Fatalf("the pair does not come together: %T, %T", first.side(), second.side())
		}
	}
	meet()
	acked, n := make(map[uint64]bool), uint64(0)
	write := func(on *machine) {
		if n++; on.decide(n) {
			acked[n] = true
		}
	}
	cut := func() {
		yes := rng.IntN(2) == 0
		[]*machine{a, b}[rng.IntN(2)].wire.Partition(yes)
	}
	for range 60 {
		switch rng.IntN(12) {
		case 0, 1:
			cut()
		case 2:
			if _, ok := second.side().(*Follower); ok {
				second.promote()
				first, second = second, first
				write(second) // it may not know
				write(first)
				a.wire.Partition(false)
				b.wire.Partition(false)
				meet()
			}
		case 3:
			m := []*machine{a, b}[rng.IntN(2)]
			m.close()
			m.open()
		default:
			write(first)
			if rng.IntN(4) == 0 {
				write(second)
			}
		}
	}
	a.wire.Partition(false)
	b.wire.Partition(false)
	meet()
	if len(acked) == 0 {
		t.Fatal("nothing was acknowledged")
	}
	t.Logf("%d of %d numbers acknowledged, term %d", len(acked), n, first.term.Load()[0])
	for _, m := range []*machine{first, second} {
		got := m.numbers()
		for n := range acked {
			if got[n] != 1 {
				t.Errorf("number %d was acknowledged and is there %d times", n, got[n])
			}
		}
	}
}

// TestLateFence has a former node learn of a later term after its machine has taken over again. A process closes the
// door before it opens its node anew, so nothing must come of it.
func TestLateFence(t *testing.T) {
	a, b := pairUp(t)
	former := a.lead
	b.promote()
	await.True(t, "the former first node follows", func() bool { return follows(b, a) })
	a.promote()
	await.True(t, "a pair", func() bool { return follows(a, b) })
	former.fence(2, 1)
	if !follows(a, b) {
		t.Errorf("the pair is %T, %T", a.side(), b.side())
	}
}

// TestTakeOverFails checks that a first node that was asked to decide nothing more decides again when the second one
// gives up. The second one takes over later.
func TestTakeOverFails(t *testing.T) {
	a, b := pairUp(t)
	if !b.follow.TakeOver(t.Context()) || a.decide(1) {
		t.Fatal("the first node does not hand over")
	}
	a.wire.Sever() // the second node follows again, and takes over nevertheless
	await.True(t, "a connection", func() bool { return a.lead.Status().Connected })
	if a.decide(1) {
		t.Error("a node decides after it has handed over")
	}
	b.follow.Decline()
	a.wire.Sever()
	n := uint64(1) // a number that is not acknowledged is in the store nevertheless
	await.True(t, "a first node that decides again", func() bool {
		n++
		return follows(a, b) && a.decide(n)
	})
	b.promote()
	await.True(t, "a pair", func() bool { return follows(b, a) })
	if got := a.numbers()[n]; got != 1 {
		t.Errorf("the acknowledged number is there %d times", got)
	}
	await.True(t, "a second node that has taken over", func() bool {
		n++
		return b.decide(n)
	})
}

// TestAloneAsksFirst checks that a first node that may go on alone asks the other one for its term before, and
// again when the answer is old: the process may have been frozen, and replaced, since.
func TestAloneAsksFirst(t *testing.T) {
	a, b := pairUp(t)
	index, err := a.store.Append(binary.BigEndian.AppendUint64(nil, 1))
	if err != nil {
		t.Fatal(err)
	}
	await.True(t, "a copy of the entry", func() bool { return a.lead.Status().Copied == index })
	o := a.options(a.lead.state)
	o.Alone = true
	lone := func() *Leader { return NewLeader(o) } // nothing follows it
	l := lone()
	if err := l.Confirm(index); err != nil {
		t.Errorf("a standby that follows another leader: %v", err)
	}
	follower := b.follow
	over, cancel := context.WithCancel(t.Context())
	cancel()
	follower.TakeOver(over) // it does not reach the first node
	if err := l.Confirm(index); err != nil {
		t.Errorf("asked a moment ago: %v", err)
	}
	for name, l := range map[string]*Leader{"a new leader": lone(), "a leader that was frozen": l} {
		l.asked = l.asked.Add(-aloneFor)
		err := l.Confirm(index)
		if !errors.Is(err, bulkhead.ErrReadOnly) || errors.Is(err, ErrFenced) || l.MayDecide() == nil {
			t.Errorf("%s, and the standby takes over: %v", name, err)
		}
	}
	l = lone()
	l.asked = time.Now()
	if err := l.Confirm(index); err != nil {
		t.Errorf("asked a moment ago: %v", err)
	}
	a.wire.Partition(true)
	b.promote()
	for name, l := range map[string]*Leader{"a new leader": lone(), "a leader that was frozen": l} {
		l.asked = l.asked.Add(-aloneFor)
		if err := l.Confirm(index); !errors.Is(err, ErrFenced) || !errors.Is(l.MayDecide(), ErrFenced) {
			t.Errorf("%s, and the standby has taken over: %v", name, err)
		}
	}
	b.wire.Partition(true)
	if err := lone().Confirm(index); err != nil {
		t.Errorf("a standby out of reach: %v", err)
	}
}

// TestFollowsUnsynced checks that a follower gets all entries of a first node in which some were written and are not
// durable when it connects, as with relaxed durability, or with a stream that has them.
func TestFollowsUnsynced(t *testing.T) {
	a, _ := pairUp(t)
	st, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{Durability: store.Relaxed,
		SyncEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	o := a.options(a.lead.state)
	o.Store = st
	lead := NewLeader(o)
	write := func() {
		t.Helper()
		if _, err := st.Append(binary.BigEndian.AppendUint64(nil, 1)); err != nil {
			t.Fatal(err)
		}
	}
	const before, after = 5, 3
	for range before {
		write()
	}
	w, ended := followedBy(lead, hello{Follow: true, Source: st.Manifest().Incarnation})
	var reply welcome
	if err := w.receiveJSON(frameWelcome, &reply); err != nil || reply.Copy {
		t.Fatalf("welcome %+v, %v", reply, err)
	}
	for range after {
		write()
	}
	if err := st.Sync(); err != nil {
		t.Fatal(err)
	}
	for last := uint64(0); last < before+after; {
		kind, content, err := w.receive()
		if err != nil {
			t.Fatal(err)
		}
		if kind != frameEntries {
			continue
		}
		entries, err := parseEntries(content, last)
		if err != nil {
			t.Fatalf("after entry %d: %v", last, err)
		}
		last += uint64(len(entries))
	}
	w.conn.Close()
	<-ended
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// followedBy streams to a follower that begins with h. It returns the follower's side, and what ends the stream.
func followedBy(lead *Leader, h hello) (*wire, <-chan error) {
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		defer near.Close()
		ended <- lead.stream(context.Background(), &wire{conn: near, limit: maxHello}, &h, new(welcome))
	}()
	return &wire{conn: far, limit: maxFrame}, ended
}

// TestFollowerOfAnotherStore checks that entries that a follower has of another store confirm nothing.
func TestFollowerOfAnotherStore(t *testing.T) {
	a, _ := pairUp(t)
	lead := NewLeader(a.options(a.lead.state))
	w, ended := followedBy(lead, hello{Follow: true, Last: 1 << 40, Source: "of another store"})
	defer w.conn.Close()
	var reply welcome
	if err := w.receiveJSON(frameWelcome, &reply); err != nil || !reply.Copy {
		t.Fatalf("welcome %+v, %v", reply, err)
	}
	index, err := a.store.Append(binary.BigEndian.AppendUint64(nil, 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := lead.Confirm(index); !errors.Is(err, bulkhead.ErrReadOnly) {
		t.Errorf("entry %d is confirmed by a follower without it: %v", index, err)
	}
	// A follower that confirms nothing is waited for once, whatever number of entries waits.
	await.True(t, "20 more entries that do not wait", func() bool {
		began := time.Now()
		for range 20 {
			if err := lead.Confirm(index); !errors.Is(err, bulkhead.ErrReadOnly) {
				t.Errorf("entry %d is confirmed by a follower without it: %v", index, err)
			}
		}
		return time.Since(began) <= lead.o.Wait
	})
	w.conn.Close()
	<-ended
}
