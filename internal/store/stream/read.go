package stream

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/store"
)

// maxTaken is the size in bytes from which entries are passed on, and maxEntries their number.
const (
	maxTaken   = 4 << 20
	maxEntries = 1024
)

// Join implements [store.Shared].
func (j *Journal) Join(ctx context.Context, at store.Position, begin bool,
	take func(context.Context, store.Position, []store.Entry) error) (store.Position, error) {
	s, info, err := j.open(ctx, begin)
	if err != nil {
		return at, j.failed(err)
	}
	if s == nil || info.State.Msgs == 0 && info.State.LastSeq == 0 && !begin {
		return at, nil // no writer has begun
	}
	st := &info.State
	end := at
	switch {
	case st.Msgs == 0 && st.LastSeq > 0:
		err = fmt.Errorf("%w: the stream was emptied: if this node has the latest state, delete the stream, and the node "+
			"begins a new one", store.ErrGap)
	case st.Msgs == 0:
		end, st.LastSeq, err = j.begin(ctx, at)
	default:
		end, err = j.catchUp(ctx, s, st, at, take)
	}
	if err != nil {
		return end, j.failed(err)
	}
	first := end.Index + 1
	if st.Msgs > 0 {
		if first, err = j.firstOf(ctx, s, st); err != nil {
			return end, j.failed(err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at, j.first, j.seq, j.problem = end, first, st.LastSeq, nil
	return end, nil
}

// begin writes the mark at which a new stream begins.
func (j *Journal) begin(ctx context.Context, at store.Position) (store.Position, uint64, error) {
	for at.Link == 0 {
		var random [8]byte
		rand.Read(random[:])
		at.Link = binary.LittleEndian.Uint64(random[:])
	}
	seq, err := j.publish(ctx, &message{writer: j.writer, index: at.Index, before: at.Link, after: at.Link}, 0)
	return at, seq, err
}

// catchUp passes the entries after a position on, and returns the position of the last one that it has passed on.
func (j *Journal) catchUp(ctx context.Context, s jetstream.Stream, st *jetstream.StreamState, at store.Position,
	take func(context.Context, store.Position, []store.Entry) error) (store.Position, error) {
	tip, err := j.tip(ctx, s, st)
	if err != nil {
		return at, err
	}
	fresh := at == store.Position{}
	switch {
	case tip.index < at.Index:
		return at, fmt.Errorf("%w: it ends with entry %d, and this node has entry %d: the servers have lost entries, or the "+
			"stream is another one. If this node has the latest state, delete the stream, and the node begins a new one",
			store.ErrDiverged, tip.index, at.Index)
	case at.Link == 0 && tip.index == at.Index && tip.mark():
		return store.Position{Index: at.Index, Link: tip.after}, nil // nothing was appended since the stream was begun
	case at.Link == 0 && !fresh:
		return at, fmt.Errorf("%w: this node's state was kept without the stream: if it is the latest one, delete the "+
			"stream, and the node begins a new one", store.ErrDiverged)
	case tip.index == at.Index && tip.after != at.Link:
		return at, diverged(at.Index)
	case tip.index == at.Index:
		return at, nil
	}
	from, err := j.find(ctx, s, st, at.Index+1)
	if err != nil {
		return at, err
	}
	end := at
	var entries []store.Entry
	size := 0
	flush := func() error {
		if len(entries) == 0 {
			return nil
		}
		err := take(ctx, at, entries)
		if err == nil {
			at = end
		}
		entries, size = nil, 0
		return err
	}
	err = j.walk(ctx, s, from, st.LastSeq, func(e *message) error {
		switch {
		case e.index <= end.Index:
			return nil
		case e.index > end.Index+1 || e.mark():
			return fmt.Errorf("%w: this node has the entries up to %d, and the stream begins after that: restore a later "+
				"backup, or copy the other node of the pair", store.ErrGap, end.Index)
		case fresh && end.Link == 0:
			at.Link, end.Link = e.before, e.before
		case e.before != end.Link:
			return diverged(end.Index)
		}
		if j.hasBegun() && e.writer != j.writer {
			return fmt.Errorf("%w since entry %d", store.ErrFenced, e.index)
		}
		end = end.After(e.data)
		if end.Link != e.after {
			return fmt.Errorf("%w: entry %d and its link do not belong together", bulkhead.ErrMalformed, e.index)
		}
		entries = append(entries, store.Entry{Index: e.index, Data: e.data})
		if size += len(e.data); size >= maxTaken || len(entries) >= maxEntries {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil && at.Index != tip.index {
		err = fmt.Errorf("%w: it was read up to entry %d, and ends with entry %d", bulkhead.ErrMalformed, at.Index, tip.index)
	}
	return at, err
}

func diverged(index uint64) error {
	return fmt.Errorf("%w: it has other entries up to %d: restore a backup, or copy the other node of the pair",
		store.ErrDiverged, index)
}

func (j *Journal) hasBegun() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.begun
}

// Replay implements [store.Journal]. It reads the stream up to the last entry that this node knows.
func (j *Journal) Replay(ctx context.Context, from uint64, fn func(index uint64, entry []byte) error) error {
	j.mu.Lock()
	s, at, last, first := j.stream, j.at, j.seq, min(j.first, j.at.Index+1)
	j.mu.Unlock()
	switch {
	case s == nil:
		return errNotJoined
	case from < first:
		return fmt.Errorf("journal: stream %s: %w: it begins with entry %d, want %d", j.o.Name, store.ErrGap, first, from)
	case from > at.Index:
		return nil
	}
	st := &jetstream.StreamState{FirstSeq: 1, LastSeq: last}
	seq, err := j.find(ctx, s, st, from)
	if err != nil {
		return fmt.Errorf("journal: stream %s: %w", j.o.Name, err)
	}
	next := from
	var failed error
	err = j.walk(ctx, s, seq, last, func(e *message) error {
		if e.mark() || e.index < next || e.index > at.Index {
			return nil
		}
		if e.index != next {
			return fmt.Errorf("%w: entry %d follows entry %d", store.ErrGap, e.index, next-1)
		}
		next++
		failed = fn(e.index, e.data)
		return failed
	})
	if err != nil && failed == nil {
		return fmt.Errorf("journal: stream %s: %w", j.o.Name, err)
	}
	return err
}

// get returns the first message with a sequence of seq or more.
func (j *Journal) get(ctx context.Context, s jetstream.Stream, seq uint64) (m message, at uint64, err error) {
	ctx, cancel := j.request(ctx, maxPart)
	defer cancel()
	raw, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(j.subject))
	if err != nil {
		return m, 0, err
	}
	if m, err = j.sealer.open(raw.Data); err != nil {
		return m, raw.Sequence, fmt.Errorf("message %d: %w. If it is no entry of this node, remove it: nats stream rmm %s %d",
			raw.Sequence, err, j.o.Name, raw.Sequence)
	}
	return m, raw.Sequence, nil
}

// ahead is the number of messages that are asked for at once. One after the other, each would wait for the network.
const ahead = 32

// walk passes the entries and marks in the messages from one sequence to another on to fn, in their order.
func (j *Journal) walk(ctx context.Context, s jetstream.Stream, from, to uint64, fn func(*message) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		m   message
		at  uint64
		err error
	}
	var a assembler
	var waiting []chan answer // for the messages of the sequences before asked, in their order
	asked, next := from, from
	for {
		for ; asked <= to && len(waiting) < ahead; asked++ {
			one, seq := make(chan answer, 1), asked
			waiting = append(waiting, one)
			go func() {
				m, at, err := j.get(ctx, s, seq)
				one <- answer{m, at, err}
			}()
		}
		if len(waiting) == 0 {
			return nil
		}
		got := <-waiting[0]
		waiting = waiting[1:]
		switch {
		case errors.Is(got.err, jetstream.ErrMsgNotFound):
			return nil
		case got.err != nil:
			return got.err
		case got.at > to:
			return nil
		case got.at < next:
			continue // the message was removed, and the one after it has been passed on
		}
		next = got.at + 1
		e, done, err := a.add(got.m)
		if err != nil {
			return fmt.Errorf("message %d: %w", got.at, err)
		}
		if !done {
			continue
		}
		if err := fn(&e); err != nil {
			return err
		}
	}
}

// find returns the sequence of the first message of the entry with an index or a later one. Indexes do not fall along a
// stream. It is the sequence after the last message if there is none.
func (j *Journal) find(ctx context.Context, s jetstream.Stream, st *jetstream.StreamState,
	index uint64) (uint64, error) {
	low, high := max(1, st.FirstSeq), st.LastSeq+1
	for low < high {
		mid := low + (high-low)/2
		m, at, err := j.get(ctx, s, mid)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			high = mid
		case err != nil:
			return 0, err
		case m.index >= index:
			high = mid
		default:
			low = at + 1
		}
	}
	return low, nil
}

// tip returns the last message that completes an entry, or is a mark.
func (j *Journal) tip(ctx context.Context, s jetstream.Stream, st *jetstream.StreamState) (m message, err error) {
	for seq := st.LastSeq; seq >= max(1, st.FirstSeq); {
		m, at, err := j.get(ctx, s, seq)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && at > seq: // it was removed
			seq--
		case err != nil:
			return m, err
		case m.last():
			return m, nil
		default: // an entry that was never completed
			seq -= min(seq, uint64(m.part)+1)
		}
	}
	return m, fmt.Errorf("%w: no entry of it is complete", bulkhead.ErrMalformed)
}

// firstOf returns the index of the first entry of a stream.
func (j *Journal) firstOf(ctx context.Context, s jetstream.Stream, st *jetstream.StreamState) (uint64, error) {
	m, _, err := j.get(ctx, s, max(1, st.FirstSeq))
	if err != nil {
		return 0, err
	}
	if m.mark() || m.part > 0 {
		return m.index + 1, nil
	}
	return m.index, nil
}
