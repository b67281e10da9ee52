package standby

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-mail/bulkhead/internal/store"
	"github.com/bulkhead-mail/bulkhead/internal/testing/await"
	"github.com/bulkhead-mail/bulkhead/internal/testing/logtest"
)

// An absence is a first node whose journal has small segments, and the store of a second node that connects when the
// test wants it to.
type absence struct {
	t      *testing.T
	dir    string
	o      Options
	first  *store.Store
	lead   *Leader
	log    logtest.Log
	second *store.Store
}

const (
	smallSegment = 1 << 10
	smallKeep    = 16 << 10
)

func newAbsence(t *testing.T) *absence {
	t.Helper()
	m := newMachine(t, "first")
	a := &absence{t: t, dir: t.TempDir(), o: m.options(State{Role: First})}
	term := [2]uint64{1, 0}
	a.o.Term = func() (uint64, uint64) { return term[0], term[1] }
	a.o.Keep, a.o.Log = smallKeep, a.log.Logger()
	a.open()
	t.Cleanup(func() {
		a.close(a.first)
		a.close(a.second)
	})
	return a
}

// open opens the first node.
func (a *absence) open() {
	a.t.Helper()
	a.first = a.openStore("first")
	a.o.Store = a.first
	a.lead = NewLeader(a.o)
}

func (a *absence) openStore(name string) *store.Store {
	a.t.Helper()
	st, err := store.Open(filepath.Join(a.dir, name), store.Options{SegmentBytes: smallSegment, Durability: store.Relaxed})
	if err != nil {
		a.t.Fatal(err)
	}
	return st
}

func (a *absence) close(st *store.Store) {
	if st == nil {
		return
	}
	if err := st.Close(); err != nil {
		a.t.Error(err)
	}
}

// write appends entries of 100 bytes, and makes a checkpoint that covers them.
func (a *absence) write(entries int) {
	a.t.Helper()
	for range entries {
		n := a.first.LastIndex() + 1
		if _, err := a.first.Append(binary.BigEndian.AppendUint64(make([]byte, 92), n)); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := a.first.Checkpoint(a.t.Context(), a.first.LastIndex()+1, nil, nil); err != nil {
		a.t.Fatal(err)
	}
}

// connect connects the second node, and has it take what it is sent until it has all entries. Afterwards it is away. A
// copy waits in its folder until the second node connects again.
func (a *absence) connect() (copied bool) {
	a.t.Helper()
	h := hello{Follow: true}
	if _, err := os.Stat(filepath.Join(a.dir, CopyFolder)); err == nil {
		a.close(a.second)
		if err := os.RemoveAll(filepath.Join(a.dir, "second")); err != nil {
			a.t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(a.dir, CopyFolder), filepath.Join(a.dir, "second")); err != nil {
			a.t.Fatal(err)
		}
		a.second = a.openStore("second")
	}
	if a.second != nil {
		h.Source, h.Last = a.first.Manifest().Incarnation, a.second.LastIndex()
	}
	w, ended := followedBy(a.lead, h)
	defer func() {
		w.conn.Close()
		<-ended
	}()
	var reply welcome
	if err := w.receiveJSON(frameWelcome, &reply); err != nil || reply.Problem != "" {
		a.t.Fatalf("welcome %+v, %v", reply, err)
	}
	if reply.Copy {
		a.take(w)
		return true
	}
	for a.second.LastIndex() < a.first.LastIndex() {
		kind, content, err := w.receive()
		if err != nil {
			a.t.Fatal(err)
		}
		if kind != frameEntries {
			continue
		}
		entries, err := parseEntries(bytes.Clone(content), a.second.LastIndex())
		if err == nil {
			err = a.second.AppendAll(entries)
		}
		if err == nil {
			err = w.sendIndex(frameAck, a.second.LastIndex())
		}
		if err != nil {
			a.t.Fatal(err)
		}
	}
	await.True(a.t, "a confirmation", func() bool { return a.lead.Status().Copied == a.first.LastIndex() })
	return false
}

// take receives a copy.
func (a *absence) take(w *wire) {
	a.t.Helper()
	var backup bytes.Buffer
	for {
		kind, content, err := w.receive()
		if err != nil {
			a.t.Fatal(err)
		}
		if kind == frameCopied {
			break
		}
		backup.Write(content)
	}
	if _, err := store.Restore(a.t.Context(), &backup, filepath.Join(a.dir, CopyFolder), store.Options{}); err != nil {
		a.t.Fatal(err)
	}
}

// journalBytes returns the size of the first node's journal.
func (a *absence) journalBytes() (size int64) {
	a.t.Helper()
	files, err := os.ReadDir(filepath.Join(a.dir, "first", "journal"))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			a.t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

// needsCopy reports whether the first node's status states that the second one needs a copy.
func (a *absence) needsCopy() bool {
	s := a.lead.Status()
	return strings.Contains(s.Problem, "needs a copy of the whole state")
}

// TestOpensSlowly has the first node write checkpoints while the second one opens its copy, and while it is away. The
// second node needs one copy.
func TestOpensSlowly(t *testing.T) {
	a := newAbsence(t)
	a.write(30)
	if !a.connect() {
		t.Fatal("a new second node is sent no copy")
	}
	for range 5 { // it opens its copy
		a.write(20)
	}
	if a.connect() {
		t.Error("a second node that has opened its copy is sent another one")
	}
	for range 5 {
		a.write(20)
	}
	if a.connect() {
		t.Error("a second node that was away is sent a copy")
	}
	a.write(20)
	if size := a.journalBytes(); size > 5*smallSegment {
		t.Errorf("the journal has %d bytes beside a second node that had everything 20 entries ago", size)
	}
}

// TestAwayForGood checks that the journal for a second node that does not come back has a limit, and that the first
// node reports it. A second node that comes back nevertheless needs one copy.
func TestAwayForGood(t *testing.T) {
	a := newAbsence(t)
	a.write(5)
	a.connect()
	if a.connect() {
		t.Fatal("a second node that has everything is sent a copy")
	}
	const dropped = "entries that the standby lacks were dropped"
	for range 20 {
		a.write(20)
		a.lead.lookAtKept()
		size := a.journalBytes()
		if size > smallKeep+3*smallSegment {
			t.Fatalf("the journal has %d bytes, limit %d", size, smallKeep)
		}
		lacks := a.first.FirstIndex() > a.second.LastIndex()+1
		if logged := strings.Contains(a.log.String(), dropped); lacks != logged || lacks != a.needsCopy() {
			t.Fatalf("entries are gone: %v, in the log: %v, status %+v", lacks, logged, a.lead.Status())
		}
	}
	if n := strings.Count(a.log.String(), dropped); n != 1 {
		t.Errorf("the log has the dropped entries %d times, want once:\n%s", n, a.log.String())
	}
	if !a.connect() {
		t.Error("a second node that lacks entries is sent no copy")
	}
	a.write(20)
	if a.needsCopy() {
		t.Errorf("after the copy: %+v", a.lead.Status())
	}
	if a.connect() {
		t.Error("a second node that has its copy is sent another one")
	}
}

// TestFirstBeginsAgain checks that a first node keeps the entries from its start on for a second node that is away, and
// none without a pair.
func TestFirstBeginsAgain(t *testing.T) {
	for _, paired := range []bool{true, false} {
		a := newAbsence(t)
		a.write(5)
		a.connect()
		a.connect()
		a.close(a.first)
		if paired {
			a.o.State.Peer = strings.Repeat("ab", keyBytes)
		}
		a.open()
		a.write(20)
		a.write(20)
		if copied := a.connect(); copied == paired {
			t.Errorf("paired %v, copied %v", paired, copied)
		}
	}
}
