package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/bulkhead-mail/bulkhead/internal/store"
)

const (
	// maxPart is the longest part of an entry in a message, in bytes.
	maxPart = 1 << 20
	// reserved is the space for headers in a message of the largest size that a server takes.
	reserved = 1 << 10
)

// Append implements [store.Journal]. The entry is in the stream once it returns nil. After an error of the servers it
// may be in the stream or not; Join finds out.
func (j *Journal) Append(entry []byte) (index uint64, err error) {
	if len(entry) > store.MaxEntry {
		return 0, fmt.Errorf("journal: entry of %d bytes, limit %d", len(entry), store.MaxEntry)
	}
	j.mu.Lock()
	at, seq, problem := j.at, j.seq, j.problem
	j.mu.Unlock()
	if problem != nil {
		return 0, problem
	}
	next := at.After(entry)
	size, err := j.partSize()
	if err != nil {
		return 0, j.failed(err)
	}
	m := message{writer: j.writer, index: next.Index, before: at.Link, after: next.Link,
		parts: uint32(max(1, (len(entry)+size-1)/size))}
	for rest := entry; m.part < m.parts; m.part++ {
		m.data = rest[:min(size, len(rest))]
		rest = rest[len(m.data):]
		if seq, err = j.publish(context.Background(), &m, seq); err != nil {
			return 0, j.failed(err)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.at, j.seq, j.begun = next, seq, true
	j.bytes += uint64(len(entry) + int(m.parts)*overhead)
	return next.Index, nil
}

// partSize returns the number of bytes of an entry that one message takes.
func (j *Journal) partSize() (int, error) {
	if j.largest > 0 {
		return j.largest, nil
	}
	limit := j.conn.MaxPayload() - int64(overhead+reserved)
	if limit <= 0 {
		return 0, fmt.Errorf("the servers take messages of at most %d bytes, want %d or more", j.conn.MaxPayload(),
			overhead+reserved+1)
	}
	return int(min(limit, maxPart)), nil
}

// errMoved means that the stream has messages that this writer does not know.
var errMoved = errors.New("the stream has grown by an entry that this node does not know")

// publish appends a message to the stream, whose last message has the given sequence, and returns the new sequence.
func (j *Journal) publish(ctx context.Context, m *message, seq uint64) (uint64, error) {
	ctx, cancel := j.request(ctx, len(m.data))
	defer cancel()
	ack, err := j.js.PublishMsg(ctx, &nats.Msg{Subject: j.subject, Data: j.sealer.seal(m)},
		jetstream.WithExpectStream(j.o.Name), jetstream.WithExpectLastSequence(seq))
	if err == nil {
		return ack.Sequence, nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch {
		case api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return 0, fmt.Errorf("%w: %w", errMoved, err)
		case strings.Contains(api.Description, "maximum bytes"): // the code is one for all errors of storing
			return 0, fmt.Errorf("%w: %w", store.ErrFull, err)
		}
	}
	return 0, err
}

// info returns the stream and its present state.
func (j *Journal) info(ctx context.Context) (jetstream.Stream, *jetstream.StreamInfo, error) {
	j.mu.Lock()
	s := j.stream
	j.mu.Unlock()
	if s == nil {
		return nil, nil, errNotJoined
	}
	info, err := s.Info(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: stream %s: %w", j.o.Name, err)
	}
	return s, info, nil
}

// Drop implements [store.Journal]. The last entry stays: it is what the state of a node is compared with. So do the
// latest [Options].Keep bytes of entries.
func (j *Journal) Drop(ctx context.Context, before uint64) error {
	s, info, err := j.info(ctx)
	if err != nil {
		return err
	}
	last, st := j.LastIndex(), &info.State
	j.mu.Lock()
	j.bytes = st.Bytes
	j.mu.Unlock()
	if st.Msgs == 0 || int64(st.Bytes) <= j.o.Keep {
		return nil
	}
	seq, err := j.find(ctx, s, st, min(before, last))
	if err != nil {
		return fmt.Errorf("journal: stream %s: %w", j.o.Name, err)
	}
	// The share of messages that is above what stays.
	excess := float64(int64(st.Bytes)-j.o.Keep) / float64(st.Bytes)
	seq = min(seq, st.FirstSeq+uint64(excess*float64(st.Msgs)))
	if seq <= st.FirstSeq {
		return nil
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(seq)); err != nil {
		return fmt.Errorf("journal: stream %s: %w", j.o.Name, err)
	}
	if info, err = s.Info(ctx); err != nil {
		return fmt.Errorf("journal: stream %s: %w", j.o.Name, err)
	}
	first, err := j.firstOf(ctx, s, &info.State)
	if err != nil {
		return fmt.Errorf("journal: stream %s: %w", j.o.Name, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.first, j.bytes = first, info.State.Bytes
	return nil
}

// Room implements [store.Shared].
func (j *Journal) Room(ctx context.Context) error {
	_, info, err := j.info(ctx)
	if err != nil {
		return err
	}
	size, limit := int64(info.State.Bytes), info.Config.MaxBytes
	if limit > 0 && size > limit-limit/8 {
		return fmt.Errorf("journal: stream %s: %w: %d of %d bytes", j.o.Name, store.ErrFull, size, limit)
	}
	return nil
}
