package ratelimit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// The files of a folder of states: "secret", 16 random bytes that key all hashes, and for each rule
// "NAME.rates", in the format of filter.UniqueRate.EncodeStates. The key of each state is its tag
// in eight bytes, little-endian.
const (
	// SecretFile is the name of the secret's file.
	SecretFile = "secret"
	stateFile  = ".rates"
	asideFile  = ".unread"
	savedFile  = ".saved" // empty: a state was saved once, so a missing one is a fault and the rule is not new
)

// openDir makes the folder and reads or makes the secret.
func (l *Limiter) openDir() error {
	if err := wholefile.MakeFolder(l.opts.Dir); err != nil {
		return fmt.Errorf("ratelimit: %w", err)
	}
	if err := removeLeftovers(l.opts.Dir); err != nil {
		return fmt.Errorf("ratelimit: %w", err)
	}
	path := filepath.Join(l.opts.Dir, SecretFile)
	b, err := readSmall(path, len(l.secret))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := io.ReadFull(l.opts.Random, l.secret[:]); err != nil {
			return fmt.Errorf("ratelimit: %w", err)
		}
		if err := wholefile.Replace(path, wholefile.Bytes(l.secret[:])); err != nil {
			return fmt.Errorf("ratelimit: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("ratelimit: %w", err)
	}
	copy(l.secret[:], b)
	return nil
}

// removeLeftovers removes files left half-written by a crash. Each is as large as the states, and
// every crash may leave another one.
func removeLeftovers(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		for _, of := range []string{SecretFile, "*" + stateFile, "*" + savedFile} {
			if left, err := filepath.Match(wholefile.Leftovers(of), f.Name()); err != nil || !left {
				continue
			}
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// readSmall reads a file that must have the given size.
func readSmall(path string, size int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(size)+1))
	if err != nil {
		return nil, err
	}
	if len(b) != size {
		return nil, fmt.Errorf("%s: %d bytes, want %d", path, len(b), size)
	}
	return b, nil
}

func (l *Limiter) statePath(r *rule) string { return filepath.Join(l.opts.Dir, r.Name+stateFile) }

// load reads the saved states of a rule. If they are faulty in any way, the file is set aside and
// the rule starts empty.
func (l *Limiter) load(r *rule) {
	if l.opts.Dir == "" {
		return
	}
	path := l.statePath(r)
	kept, lost, err := r.read(path, l.opts.Now())
	switch {
	case err == nil && kept+lost > 0:
		l.opts.Log.Info("rate limit read", "rule", r.Name, "keys", kept, "without_room", lost)
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		if wasSaved(l.opts.Dir, r.Name) {
			l.Stats.Faults.Add(1)
			l.opts.Log.Warn("rate limit starts empty", "rule", r.Name, "reason", "its saved state is missing",
				"file", path)
		}
	default:
		l.Stats.Faults.Add(1)
		l.opts.Log.Warn("rate limit starts empty", "rule", r.Name, "reason", "its saved state does not fit",
			"err", err)
		if err := os.Rename(path, path+asideFile); err != nil {
			l.opts.Log.Warn("saved state not set aside", "rule", r.Name, "err", err)
		}
	}
}

// read fills the table from a file. After an error the table is empty.
func (r *rule) read(path string, now time.Time) (kept, lost int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	states := 0
	fresh, err := newTable(r.rate, r.largest, r.Memory)
	if err != nil {
		return 0, 0, err
	}
	// States for which the table has no room are dropped while reading, so a rule with less memory
	// than before keeps as many as fit.
	err = decodeStates(r.rate, bufio.NewReaderSize(f, 1<<16), info.Size(), func(tag uint64, state []byte) {
		fresh.keep(tag, state, now)
		states++
	})
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	r.table = fresh
	kept, _, _, _ = fresh.usage()
	return kept, states - kept, nil
}

// decodeStates reads one file of states, at most limit bytes of keys and states. It may have called
// put before it returns an error.
func decodeStates(rate *filter.UniqueRate, r io.Reader, limit int64, put func(tag uint64, state []byte)) error {
	err := rate.DecodeStates(r, limit, func(key, state []byte) error {
		if len(key) != tagBytes {
			return fmt.Errorf("%w: key of %d bytes, want %d", filter.ErrCorrupt, len(key), tagBytes)
		}
		tag := binary.LittleEndian.Uint64(key)
		if tag&^tagMask != 0 || binary.LittleEndian.Uint64(state[8:]) == 0 {
			return fmt.Errorf("%w: key %#x is none that a table holds", filter.ErrCorrupt, tag)
		}
		put(tag, state)
		return nil
	})
	if err != nil {
		return err
	}
	var one [1]byte
	if n, _ := r.Read(one[:]); n > 0 {
		return fmt.Errorf("%w: bytes after the end", filter.ErrCorrupt)
	}
	return nil
}

// SavedMark returns the path of the file that marks the state at a path as saved before, or "" for a
// path that is not a state. If the mark is missing as well, a missing state means that the rule is
// new.
func SavedMark(state string) string {
	if rule, ok := strings.CutSuffix(state, stateFile); ok {
		return rule + savedFile
	}
	return ""
}

// wasSaved reports whether a state of a rule was ever saved.
func wasSaved(dir, rule string) bool {
	_, err := os.Stat(filepath.Join(dir, rule+savedFile))
	return err == nil
}

// Save writes the states that have changed since the last Save. Each file is replaced as a whole or
// not at all. Save continues after a failure and returns all errors.
func (l *Limiter) Save() error {
	if l.opts.Dir == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, r := range *l.rules.Load() {
		if r.reads != nil || !r.table.dirty() {
			continue
		}
		err := wholefile.Replace(l.statePath(r), func(w io.Writer) error {
			return r.rate.EncodeStates(w, r.table.all())
		})
		if err == nil && !wasSaved(l.opts.Dir, r.Name) {
			err = wholefile.Replace(filepath.Join(l.opts.Dir, r.Name+savedFile), wholefile.Bytes(nil))
		}
		if err != nil {
			r.table.touch()
			l.Stats.Faults.Add(1)
			errs = append(errs, fmt.Errorf("ratelimit: rule %q: %w", r.Name, err))
		}
	}
	return errors.Join(errs...)
}
