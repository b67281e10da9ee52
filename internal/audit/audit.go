// Package audit records the actions of administrators and log-ins, including failed ones, in an
// append-only file with one JSON object per line. When the file reaches half of the size limit, it
// replaces the older of two files, and a new one begins.
//
//	log, err := audit.Open(folder, 8<<20, nil)
//	log.Append(admin.AuditEntry{Account: "admin", Action: "evictPeer"})
//	page, err := log.Read(admin.AuditQuery{Account: "admin"})
package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/client/admin"
)

// Names of the files, in the data folder.
const (
	File      = "audit.jsonl"
	OlderFile = "audit.1.jsonl"
)

// MinBytes is the smallest limit of both files together, in bytes.
const MinBytes = 64 << 10

// Limits of an entry. Longer texts are cut.
const (
	maxText  = 500
	maxAbout = 32 // values
)

// A Log is the audit record of a node. Its methods may be called concurrently, and several
// processes may append.
type Log struct {
	Lost atomic.Int64 // entries that could not be written

	dir      string
	beside   string // "" for none
	maxBytes int64
	now      func() time.Time

	mu   sync.Mutex
	last int64 // largest ID
}

// Open returns the log in a folder. Its files have at most maxBytes together, which must be at
// least MinBytes, and are created with the first entry. now returns the time; nil means time.Now.
func Open(dir string, maxBytes int64, now func() time.Time) (*Log, error) {
	if maxBytes < MinBytes {
		return nil, fmt.Errorf("audit: %d bytes, want at least %d", maxBytes, MinBytes)
	}
	if now == nil {
		now = time.Now
	}
	return &Log{dir: dir, maxBytes: maxBytes, now: now}, nil
}

// Beside makes [Log.Read] return the entries of another log as well, which is in a folder: a copy of the record of the
// node that this one may replace. It must be called before the log is used.
func (l *Log) Beside(folder string) { l.beside = folder }

// Append writes an entry, whose ID and Time it sets, and syncs it. An entry that cannot
// be written is counted as lost.
func (l *Log) Append(e admin.AuditEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(l.last+1, l.now().UnixMicro())
	e.ID, e.Time = l.last, time.UnixMicro(l.last).UTC()
	err := l.write(&e)
	if err != nil {
		l.Lost.Add(1)
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

func (l *Log) write(e *admin.AuditEntry) error {
	e.Error, e.Account, e.Action = short(e.Error), short(e.Account), short(e.Action)
	about := make(map[string]string, len(e.About))
	for k, v := range e.About {
		if len(about) < maxAbout {
			about[short(k)] = short(v)
		}
	}
	e.About = about
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := filepath.Join(l.dir, File)
	info, err := os.Stat(path)
	if err == nil && info.Size()+int64(len(line))+1 > l.maxBytes/2 {
		err = os.Rename(path, filepath.Join(l.dir, OlderFile))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if cutShort(f) {
		line = append([]byte{'\n'}, line...) // the remains of a crash become a line of their own
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// cutShort reports whether a file ends within a line.
func cutShort(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// short cuts a text to its limit.
func short(text string) string {
	if len(text) > maxText {
		return string(bytes.ToValidUTF8([]byte(text[:maxText]), nil)) + "..."
	}
	return text
}

// Inspect returns an error that names the first line of a file of the record that is no entry, or an
// error that wraps [fs.ErrNotExist]. A line that a crash has cut short is no fault.
func Inspect(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 {
			var e admin.AuditEntry
			wrong := json.Unmarshal(text, &e)
			if wrong == nil && e.ID == 0 {
				wrong = errors.New("it has no ID")
			}
			if wrong != nil && wrong.Error() != cutJSON {
				return fmt.Errorf("audit: line %d: %w", n, wrong)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// cutJSON is the error of encoding/json for a text that ends too early.
const cutJSON = "unexpected end of JSON input"

// Numbers of entries on a page.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// Read returns entries, the latest first. Invalid lines are skipped.
func (l *Log) Read(q admin.AuditQuery) (admin.AuditPage, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultPage
	}
	q.Limit = min(q.Limit, MaxPage)
	l.mu.Lock()
	defer l.mu.Unlock()
	page, err := l.page(l.dir, &q)
	if err != nil || l.beside == "" {
		return page, err
	}
	other, err := l.page(l.beside, &q)
	if err != nil {
		return page, err
	}
	cut := page.Next > 0 || other.Next > 0
	page.Entries = append(page.Entries, other.Entries...)
	slices.SortStableFunc(page.Entries, func(a, b admin.AuditEntry) int { return cmp.Compare(b.ID, a.ID) })
	if cut || len(page.Entries) > q.Limit {
		page.Entries = page.Entries[:q.Limit]
		page.Next = page.Entries[q.Limit-1].ID
	}
	return page, nil
}

// page returns the entries of the log in a folder.
func (l *Log) page(dir string, q *admin.AuditQuery) (admin.AuditPage, error) {
	page := admin.AuditPage{Entries: []admin.AuditEntry{}}
	for _, name := range []string{File, OlderFile} {
		text, err := l.read(filepath.Join(dir, name))
		if err != nil {
			return page, err
		}
		if !collect(&page, text, q) {
			break
		}
	}
	return page, nil
}

// read returns the contents of a file, up to the limit, or nothing if the file is absent.
func (l *Log) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, l.maxBytes))
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	return text, nil
}

// collect adds the entries of a file that match the query. It returns false when the page is full.
func collect(page *admin.AuditPage, text []byte, q *admin.AuditQuery) bool {
	for len(text) > 0 {
		text = bytes.TrimRight(text, "\n")
		at := bytes.LastIndexByte(text, '\n')
		line := text[at+1:]
		text = text[:at+1]
		var e admin.AuditEntry
		if json.Unmarshal(line, &e) != nil || e.ID == 0 || !wanted(&e, q) {
			continue
		}
		if len(page.Entries) == q.Limit {
			page.Next = page.Entries[q.Limit-1].ID
			return false
		}
		page.Entries = append(page.Entries, e)
	}
	return true
}

func wanted(e *admin.AuditEntry, q *admin.AuditQuery) bool {
	return (q.Before == 0 || e.ID < q.Before) &&
		(q.Since.IsZero() || !e.Time.Before(q.Since)) && (q.Until.IsZero() || e.Time.Before(q.Until)) &&
		(q.Account == "" || e.Account == q.Account) && (q.Action == "" || e.Action == q.Action)
}
