package store

import (
	"fmt"
	"time"
)

// Append writes one entry of at most [MaxEntry] bytes and returns its index. It does not retain the
// slice. With [Always] the entry is on disk when Append returns.
//
// An entry that is too large is refused and changes nothing. After any other error the entry is not
// acknowledged, the store is Failed, and every Append returns an error that wraps [ErrFailed] until
// [Store.Recover] succeeds. If the process ends before that, the next Open may or may not find the
// entry. Its index is not used for any other entry.
func (s *Store) Append(entry []byte) (index uint64, err error) {
	if len(entry) > MaxEntry {
		return 0, fmt.Errorf("store: entry of %d bytes, limit %d", len(entry), MaxEntry)
	}
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if err := s.Err(); err != nil {
		return 0, err
	}
	index = s.last + 1
	s.burned = index
	if err := s.write(index, entry, s.opts.Durability == Always); err != nil {
		s.fail(err)
		return 0, s.Err()
	}
	return index, nil
}

// write writes an entry for the holder of appendMu. Nothing is acknowledged before its last step is
// done. With sync, the entry is on disk then.
func (s *Store) write(index uint64, entry []byte, sync bool) error {
	if s.tail != nil && s.tail.size >= s.opts.SegmentBytes {
		if err := s.finishTail(); err != nil {
			return err
		}
	}
	fresh := s.tail == nil
	if fresh {
		t, err := createSegment(s.fs, s.path(journalDir), s.id, s.opts.Random, s.epoch, index)
		if err != nil {
			return err
		}
		s.setTail(t)
	}
	t := s.tail
	rec := &record{salt: t.salt, index: index, durable: s.durable, data: entry}
	t.buf = rec.append(t.buf)
	size, err := t.write()
	if err != nil {
		return err
	}
	if fresh || sync {
		if err := t.f.Sync(); err != nil {
			return err
		}
	}
	if fresh {
		if err := s.fs.SyncDir(s.path(journalDir)); err != nil {
			return err
		}
	}
	durable := s.durable
	if fresh || sync {
		durable = index
	}
	if err := s.writeMark(index, durable); err != nil {
		return err
	}
	s.mu.Lock()
	t.last, t.size = index, size
	s.last, s.durable = index, durable
	s.publish(index, entry)
	s.mu.Unlock()
	return nil
}

func (s *Store) setTail(t *segmentWriter) {
	s.mu.Lock()
	s.tail = t
	s.mu.Unlock()
}

// finishTail closes the current segment, with all of it on disk.
func (s *Store) finishTail() error {
	if err := s.syncTail(); err != nil {
		return err
	}
	err := s.tail.f.Close()
	s.mu.Lock()
	s.segs = append(s.segs, s.tail.segment)
	s.tail = nil
	s.mu.Unlock()
	return err
}

// syncTail makes every entry durable. The caller holds appendMu.
func (s *Store) syncTail() error {
	if s.tail == nil || s.durable == s.last {
		return nil
	}
	if err := s.tail.f.Sync(); err != nil {
		return err
	}
	if err := s.writeMark(s.last, s.last); err != nil {
		return err
	}
	s.mu.Lock()
	s.durable = s.last
	s.wakeFollowers()
	s.mu.Unlock()
	return nil
}

// writeMark writes the watermark. The caller holds appendMu, or owns a store that is not shared
// yet.
func (s *Store) writeMark(acked, durable uint64) error {
	m := watermark{epoch: s.epoch, acked: acked, durable: durable}
	_, err := s.mark.WriteAt(m.encode(), 0)
	return err
}

// fail makes the store Failed. The first cause is kept.
func (s *Store) fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = cause
		s.log.Error("journal failed", "err", cause,
			"consequence", "entries are refused until it has recovered")
	}
}

// syncLoop implements Relaxed: nothing stays unsynced for longer than SyncEvery.
func (s *Store) syncLoop() {
	tick := time.NewTicker(s.opts.SyncEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		_ = s.Sync() // a failure is logged, and the next Append returns it
	}
}

// Sync makes every acknowledged entry durable. With [Always] the entries already are. If Sync
// fails, the store is Failed.
func (s *Store) Sync() error {
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if err := s.Err(); err != nil {
		return err
	}
	if err := s.syncTail(); err != nil {
		s.fail(err)
		return s.Err()
	}
	return nil
}
