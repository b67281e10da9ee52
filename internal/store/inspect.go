package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// An Inspection is the result of [Inspect].
type Inspection struct {
	// Manifest describes the current checkpoint. If there is none, Readable is false and nothing
	// else was read.
	Manifest  Manifest
	Readable  bool
	Files     int   // number of files that were read, including the journal's
	Bytes     int64 // bytes in these files
	Entries   uint64
	LastIndex uint64 // last index of the journal
	Faults    []Fault

	dir     string
	foreign map[string]bool // files of the checkpoint
	segs    []segment       // segments with entries that the checkpoint does not cover
	newer   string          // a file of a later journal than the manifest's; "" for none
	found   uint64          // checkpoint of the manifest in its place; Manifest may be its copy
}

// Content returns the content of a checkpoint file, whether or not it is intact: less of it if the
// file ends early, nothing if the file is missing.
func (n *Inspection) Content(name string) (io.ReadCloser, error) {
	info, err := n.Manifest.find(name)
	if err != nil {
		return nil, err
	}
	return openRaw(osFS{}, filepath.Join(n.dir, filesDir, info.stored()))
}

// A Span is a range of a file's content, in bytes.
type Span struct{ From, To int64 }

// BadSpans returns the ranges of a checkpoint file's content that differ from what was written.
func (n *Inspection) BadSpans(name string) (out []Span) {
	for _, f := range n.Faults {
		if f.Name == name && f.Bytes > 0 {
			from := (f.Offset - fileHead) / (blockBytes + 4) * blockBytes // 0 of a missing file
			out = append(out, Span{from, from + f.Bytes})
		}
	}
	return out
}

// Foreign reports whether a checkpoint file was replaced by a different file, of this store or
// another.
func (n *Inspection) Foreign(name string) bool { return n.foreign[name] }

// Inspect reads every byte of the store in dir, changes nothing, and returns every deviation from
// what was written. The store may be in use, by this process or another; data written during the
// inspection is left out. An error means that the store could not be read at all: it does not
// exist, has another version, or the disk fails.
func Inspect(ctx context.Context, dir string) (*Inspection, error) {
	for {
		n, err := inspect(ctx, osFS{}, dir)
		if err != nil || !n.Readable || len(n.Faults) == 0 {
			return n, err
		}
		// A checkpoint that was made in between has removed files: inspect that checkpoint instead.
		again, err := readManifest(osFS{}, filepath.Join(dir, manifestFile))
		if err != nil || again.Checkpoint == n.found {
			return n, nil
		}
	}
}

func inspect(ctx context.Context, fsys FS, dir string) (*Inspection, error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	n := &Inspection{dir: dir, foreign: make(map[string]bool)}
	path := filepath.Join(dir, manifestFile)
	var m Manifest
	content, err := manifestBytes(fsys, path)
	if err == nil {
		m, err = decodeManifest(path, content)
	}
	n.found = m.Checkpoint
	if err != nil {
		if err := n.take(err, path); err != nil {
			return nil, err
		}
		if m, err = spareManifest(fsys, dir, content); err != nil {
			return n, nil
		}
		n.Faults[0].Mended = true
	} else if spare, err := readManifest(fsys, filepath.Join(dir, manifestCopy)); err == nil &&
		spare.Incarnation == m.Incarnation && spare.Checkpoint > m.Checkpoint {
		n.Faults = append(n.Faults, Fault{File: path, Mended: true,
			What: fmt.Sprintf("the manifest is of checkpoint %d, and its copy of %d: the manifest is out of date",
				m.Checkpoint, spare.Checkpoint)})
		m = spare
	} else if err != nil {
		fault := Fault{File: filepath.Join(dir, manifestCopy), What: err.Error(), Mended: true}
		if fault.Absent = errors.Is(err, fs.ErrNotExist); fault.Absent {
			fault.What = "the copy of the manifest is missing"
		}
		n.Faults = append(n.Faults, fault)
	}
	n.Manifest, n.Readable = m, true
	// The watermark is read first: the segments read later then hold everything it covers.
	mark, err := n.watermark(fsys, filepath.Join(dir, watermarkFile))
	if err != nil {
		return nil, err
	}
	for i := range m.Files {
		file := filepath.Join(dir, filesDir, m.Files[i].stored())
		faults, foreign, err := inspectBlocks(ctx, fsys, file, m.Files[i])
		if err != nil {
			return nil, err
		}
		n.Files, n.Bytes = n.Files+1, n.Bytes+m.Files[i].Size
		n.Faults = append(n.Faults, faults...)
		n.foreign[m.Files[i].Name] = foreign
	}
	return n, n.journal(ctx, fsys, dir, mark)
}

// spareManifest returns the manifest in dir with one flipped bit of its content repaired, or else its copy.
func spareManifest(fsys FS, dir string, content []byte) (Manifest, error) {
	if m, ok := mendManifest(filepath.Join(dir, manifestFile), content); ok {
		return m, nil
	}
	return readManifest(fsys, filepath.Join(dir, manifestCopy))
}

// Whole returns the content of a checkpoint file if all of it can be recovered in spite of a fault:
// the damage is outside of the content, or is one flipped bit.
func (n *Inspection) Whole(name string) ([]byte, bool) {
	info, err := n.Manifest.find(name)
	if err != nil || info.Size > maxManifestBytes {
		return nil, false
	}
	r, err := n.Content(name)
	if err != nil {
		return nil, false
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, info.Size)) // a short last block is followed by its checksum
	if err != nil || int64(len(b)) != info.Size {
		return nil, false
	}
	sum := crc32.Checksum(b, castagnoli)
	if sum == info.CRC || MendBit(b, sum, info.CRC) && crc32.Checksum(b, castagnoli) == info.CRC {
		return b, true
	}
	return nil, false
}

// Damaged reports whether a file of the checkpoint has a fault.
func (n *Inspection) Damaged(name string) bool {
	for i := range n.Faults {
		if n.Faults[i].Name == name {
			return true
		}
	}
	return false
}

// take records err as a fault if it is one, and returns any other error.
func (n *Inspection) take(err error, path string) error {
	var damage *DamageError
	switch {
	case errors.As(err, &damage):
		n.Faults = append(n.Faults, Fault{File: damage.File, Offset: damage.Offset, What: damage.What})
	case errors.Is(err, fs.ErrNotExist):
		n.Faults = append(n.Faults, Fault{File: path, What: "the file is missing"})
	default:
		return err
	}
	return nil
}

// watermark reads the watermark, zero if it cannot be read.
func (n *Inspection) watermark(fsys FS, path string) (watermark, error) {
	mark, err := steadyWatermark(fsys, path)
	if err != nil {
		return watermark{}, n.take(err, path)
	}
	n.Files, n.Bytes = n.Files+1, n.Bytes+watermarkBytes
	return mark, nil
}

// journal reads the segments that the checkpoint needs. Without a watermark, mark is zero.
func (n *Inspection) journal(ctx context.Context, fsys FS, dir string, mark watermark) error {
	m := &n.Manifest
	if mark.epoch > m.epoch {
		n.newer = watermarkFile
		n.Faults = append(n.Faults, Fault{File: filepath.Join(dir, manifestFile),
			What: fmt.Sprintf("the manifest is of journal epoch %d, the watermark of %d: the manifest is out of date",
				m.epoch, mark.epoch)})
		return nil
	}
	acked := mark.acked
	if mark.epoch != m.epoch || acked < m.Start {
		acked = 0 // of another journal, or all in the checkpoint
	}
	path := filepath.Join(dir, journalDir)
	segs, err := n.segments(fsys, path, m)
	if err != nil {
		return err
	}
	n.segs, n.LastIndex = segs, m.Start-1
	for i := range segs {
		if segs[i].first > n.LastIndex+1 {
			n.lost(path, "a segment is missing", max(m.Start, n.LastIndex+1), segs[i].first-1)
		}
		if err := n.segment(ctx, fsys, i, acked); err != nil {
			return err
		}
	}
	if n.LastIndex < acked {
		n.lost(path, "the journal's last segment is missing", n.LastIndex+1, acked)
		n.LastIndex = acked
	}
	return nil
}

// segment reads one of the segments. If it is the last one, it should have the entries up to acked.
func (n *Inspection) segment(ctx context.Context, fsys FS, i int, acked uint64) error {
	seg := &n.segs[i] // walk sets its end
	faults, torn, err := seg.walk(ctx, fsys, n.Manifest.Incarnation, func(index uint64, _ []byte) error {
		if index >= n.Manifest.Start {
			n.Entries++
		}
		return nil
	})
	if err != nil {
		return err
	}
	n.Files, n.Bytes = n.Files+1, n.Bytes+seg.size
	var end uint64
	if i < len(n.segs)-1 {
		end = n.segs[i+1].first - 1
	} else if end = max(seg.last, acked); torn && end == seg.last {
		faults = faults[:len(faults)-1] // a write that never finished, is still going on, or was repeated
	}
	for _, f := range shortBy(faults, torn, seg, end) {
		n.note(f)
	}
	n.LastIndex = max(n.LastIndex, end)
	return nil
}

// note records a fault of a segment. The checkpoint covers the entries before its own start.
func (n *Inspection) note(f Fault) {
	if f.First != 0 {
		f.First = max(f.First, n.Manifest.Start)
	}
	if f.First > f.Last {
		f.First, f.Last = 0, 0
	}
	n.Faults = append(n.Faults, f)
}

// Replay passes the readable journal entries that the checkpoint does not cover to fn, in order.
func (n *Inspection) Replay(ctx context.Context, fn func(index uint64, entry []byte) error) error {
	for i := range n.segs {
		seg := n.segs[i] // walk changes it
		seg.last = seg.first - 1
		_, _, err := seg.walk(ctx, osFS{}, n.Manifest.Incarnation, func(index uint64, entry []byte) error {
			if index < n.Manifest.Start {
				return nil
			}
			return fn(index, entry)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shortBy adds to a segment's faults the missing entries, up to end, that the segment should have.
func shortBy(faults []Fault, torn bool, seg *segment, end uint64) []Fault {
	if seg.last >= end {
		return faults
	}
	if k := len(faults); torn && k > 0 && faults[k-1].First == 0 {
		faults[k-1].First, faults[k-1].Last = seg.last+1, end
		return faults
	}
	return append(faults, Fault{File: seg.path, Offset: seg.size,
		What: fmt.Sprintf("the file ends after entry %d, want %d", seg.last, end), First: seg.last + 1, Last: end})
}

func (n *Inspection) lost(path, what string, first, last uint64) {
	n.Faults = append(n.Faults, Fault{File: path, What: what, First: first, Last: last})
}

// segments returns the segments of the manifest's epoch with entries that the checkpoint does not
// cover.
func (n *Inspection) segments(fsys FS, dir string, m *Manifest) (live []segment, err error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, n.take(fmt.Errorf("store: %w", err), dir)
	}
	for _, name := range names {
		epoch, first, ok := parseSegmentName(name.Name())
		path := filepath.Join(dir, name.Name())
		if !ok {
			n.Faults = append(n.Faults, Fault{File: path, What: "not a journal segment"})
			continue
		}
		switch { // names are in order of epoch and index
		case epoch == m.epoch:
			live = append(live, segment{path: path, epoch: epoch, first: first, last: first - 1})
		case epoch > m.epoch:
			if info, err := name.Info(); err == nil && info.Size() > segmentHead {
				n.newer = name.Name()
				n.Faults = append(n.Faults, Fault{File: path,
					What: fmt.Sprintf("a journal of epoch %d, and the manifest is of %d: the manifest is out of date",
						epoch, m.epoch)})
			}
		}
	}
	for len(live) > 1 && live[1].first <= m.Start {
		live = live[1:]
	}
	for len(live) > 0 {
		old, err := live[0].superfluous(fsys, m.Start)
		var damage *DamageError
		if err != nil && !errors.As(err, &damage) {
			return nil, err
		}
		if !old {
			break // damage is found again with the entries
		}
		live = live[1:]
	}
	return live, nil
}
