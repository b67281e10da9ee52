package store

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// openJournal finds the segments and the last entry.
func (s *Store) openJournal(mark watermark) error {
	m := &s.manifest
	if mark.epoch > m.epoch {
		return unusable(s.path(manifestFile),
			"the manifest is of journal epoch %d, the watermark of %d: the manifest is out of date", m.epoch, mark.epoch)
	}
	// A watermark of an earlier epoch, left by a process that died in Recover, is of entries below the checkpoint.
	segs, obsolete, err := s.sortSegments()
	if err != nil {
		return err
	}
	s.last = m.Start - 1
	for len(segs) > 0 {
		t, err := s.scanTail(segs[len(segs)-1], mark.durable)
		if err != nil {
			return err
		}
		if t.seg.last >= t.seg.first {
			segs[len(segs)-1] = t.seg
			s.last = max(s.last, t.seg.last)
			err = checkReach(t.seg.path, t.seg.size, t.seg.last, mark, m.Start)
			if err == nil {
				err = s.repairTail(t)
			}
			if err != nil {
				return err
			}
			break
		}
		// Nothing was written to this segment. It was begun when everything before it was on disk.
		mark.durable = max(mark.durable, t.seg.first-1)
		if t.torn != "" {
			s.log.Warn("dropping a torn write at the end of the journal", "file", t.seg.path, "offset", 0, "why", t.torn)
		}
		obsolete = append(obsolete, t.seg)
		segs = segs[:len(segs)-1]
	}
	if len(segs) == 0 {
		if err := checkReach(s.path(journalDir), 0, m.Start-1, mark, m.Start); err != nil {
			return err
		}
	}
	if mark.acked > s.last {
		s.log.Warn("acknowledged entries were lost", "first", s.last+1, "last", mark.acked,
			"reason", "the durability is relaxed, and the machine stopped before they were on disk")
	}
	if err := s.removeSegments(obsolete); err != nil {
		return err
	}
	s.segs, s.durable, s.burned = segs, s.last, s.last
	s.oldest = m.Start
	return nil
}

// checkReach compares the journal's last entry with the watermark.
func checkReach(path string, size int64, last uint64, mark watermark, start uint64) error {
	if need := mark.durable; max(last, start-1) < need {
		return damaged(path, size, "the journal ends with entry %d, and entry %d had been acknowledged: it was cut short",
			last, need)
	}
	return nil
}

// sortSegments separates the live segments from those that a crash left behind. The live ones
// follow each other without a gap and cover manifest.Start.
func (s *Store) sortSegments() (live, obsolete []segment, err error) {
	all, err := listSegments(s.path(journalDir))
	if err != nil {
		return nil, nil, err
	}
	m := &s.manifest
	for _, seg := range all {
		switch {
		case seg.epoch < m.epoch:
			obsolete = append(obsolete, seg)
		case seg.epoch == m.epoch:
			live = append(live, seg)
		default:
			if err := s.mustBeUnused(seg); err != nil {
				return nil, nil, err
			}
			obsolete = append(obsolete, seg)
		}
	}
	for len(live) > 1 && live[1].first <= m.Start {
		obsolete, live = append(obsolete, live[0]), live[1:]
	}
	for len(live) > 0 {
		old, err := live[0].superfluous(s.fs, m.Start)
		if err != nil {
			return nil, nil, err
		}
		if !old {
			break
		}
		obsolete, live = append(obsolete, live[0]), live[1:]
	}
	if len(live) > 0 && live[0].first > m.Start {
		return nil, nil, unusable(live[0].path,
			"the journal begins with entry %d, and the checkpoint needs %d: a segment is missing", live[0].first, m.Start)
	}
	for i := range live[:max(len(live)-1, 0)] {
		seg := &live[i]
		seg.last = live[i+1].first - 1
		if seg.size, err = s.checkBegin(*seg, s.id); err != nil {
			return nil, nil, err
		}
	}
	return live, obsolete, nil
}

// mustBeUnused accepts a segment of a later epoch only if it has no entries, as a failed Recover
// leaves it.
func (s *Store) mustBeUnused(seg segment) error {
	f, size, err := seg.open(s.fs)
	if err != nil {
		return err
	}
	defer f.Close()
	if size > segmentHead {
		return unusable(s.path(manifestFile),
			"the manifest is of journal epoch %d, and %s of %d holds entries: the manifest is out of date", s.manifest.epoch,
			seg.path, seg.epoch)
	}
	return nil
}

// checkBegin reads the header of a segment of a store with the given incarnation, and returns the size of its file.
func (s *Store) checkBegin(seg segment, incarnation string) (size int64, err error) {
	f, size, err := seg.open(s.fs)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := seg.begin(newScanner(f, size), incarnation); err != nil {
		return 0, seg.fault(err)
	}
	return size, nil
}

func (s *segment) open(fsys FS) (Handle, int64, error) {
	f, err := openRead(fsys, s.path)
	if err != nil {
		return nil, 0, fmt.Errorf("store: %w", err)
	}
	size, err := dataSize(f)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("store: %w", err), f.Close())
	}
	return f, size, nil
}

// A tail is the state of the last segment.
type tail struct {
	seg   segment
	torn  string // why the bytes after seg.size are not an entry; "" if there are none
	doubt int64  // nothing from here to seg.size is known to be on the disk
}

// scanTail reads the whole segment. Entries up to durable are known to be on the disk, and must be
// present if the checkpoint does not cover all of them.
func (s *Store) scanTail(seg segment, durable uint64) (tail, error) {
	f, size, err := seg.open(s.fs)
	if err != nil {
		return tail{}, err
	}
	defer f.Close()
	t := tail{seg: seg}
	sc := newScanner(f, size)
	err = t.seg.begin(sc, s.id)
	for err == nil {
		if _, err = t.seg.entry(sc); err == nil && t.seg.last <= durable {
			t.doubt = t.seg.size // the header is as doubtful as the first entry
		}
	}
	var bad *badRecord
	if !errors.As(err, &bad) {
		if err == io.EOF {
			return t, nil
		}
		return tail{}, t.seg.fault(err)
	}
	lost := t.seg.last + 1
	// A segment that the last checkpoint made obsolete can come back with a power cut. So can a
	// torn write at its end that was cut off on a disk that then failed to sync.
	if lost <= durable && durable >= s.manifest.Start {
		return tail{}, t.seg.fault(err)
	}
	at, later, ferr := findLater(f, bad.offset, size, t.seg.salt, lost)
	if ferr != nil {
		return tail{}, t.seg.fault(ferr)
	}
	if later {
		return tail{}, damaged(seg.path, bad.offset, "entry %d: %s, and an entry at offset %d was written after it", lost,
			bad.what, at)
	}
	t.torn = bad.what
	return t, nil
}

// repairTail cuts off a torn write, and makes the remaining records durable. They may have been
// read from a cache whose write to the disk once failed, after which the system considers them
// written. Writing them again marks them as dirty.
func (s *Store) repairTail(t tail) (err error) {
	f, err := s.fs.OpenFile(t.seg.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("store: %w", cerr)
		}
	}()
	if t.torn != "" {
		s.log.Warn("dropping a torn write at the end of the journal", "file", t.seg.path, "offset", t.seg.size,
			"entry", t.seg.last+1, "why", t.torn)
		if err := f.Truncate(t.seg.size); err != nil {
			return fmt.Errorf("store: %w", err)
		}
	}
	buf := make([]byte, bufferBytes)
	for at := t.doubt; at < t.seg.size; {
		b := buf[:min(int64(len(buf)), t.seg.size-at)]
		if _, err := f.ReadAt(b, at); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		at += int64(len(b))
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := s.fs.SyncDir(s.path(journalDir)); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

func (s *Store) removeSegments(segs []segment) error {
	for _, seg := range segs {
		if err := removeIfThere(s.fs, seg.path); err != nil {
			return err
		}
	}
	return nil
}
