package lists

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/clock"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// DefaultWatch is how often a running node checks its list files for changes.
const DefaultWatch = 5 * time.Second

// maxLists is the maximum number of lists in a set. A message may have to pass all of them.
const maxLists = 256

// A File is one list of a running node.
type File struct {
	Name string // in the configuration
	Path string
}

// SetOptions configure a [Set].
type SetOptions struct {
	Files []File
	// MaxBytes is the size limit of a list file; 0 means [DefaultMaxBytes].
	MaxBytes int64
	// Watch is how often the files are checked; 0 means [DefaultWatch], a negative value means
	// never.
	Watch time.Duration
	// FailOpen opens the set even if list files cannot be read: see [Handle.Known].
	FailOpen bool
	// Log receives reloads and faults; nil discards them.
	Log *slog.Logger
}

// A Set is the lists of a running node. Look-ups take no lock, and see a list either as it was
// before a reload or as it is afterwards. Its methods may be called concurrently.
type Set struct {
	opts    SetOptions
	mu      sync.Mutex // one reload at a time
	handles atomic.Pointer[[]*Handle]

	// Reloads counts the changed files that were loaded, Faults the files that could not be read.
	Reloads, Faults atomic.Int64
}

// A Handle is one list of a set. It stays the same when the file is read again.
type Handle struct {
	file File
	list atomic.Pointer[List]
	err  atomic.Pointer[error] // why the file could not be read since; nil if it could
	seen [3]wholefile.Stamp    // of the list, its allow list and its codes, when last checked
}

// stamps returns the present versions of the files of a list.
func (f File) stamps() [3]wholefile.Stamp {
	return [3]wholefile.Stamp{wholefile.StampOf(f.Path), wholefile.StampOf(f.Path + AllowSuffix),
		wholefile.StampOf(f.Path + CodesSuffix)}
}

// OpenSet reads every list. A list that cannot be read is an error, unless the set fails open. In
// that case nothing is found in the list until its file can be read, which is retried as for any
// file that changes.
func OpenSet(o SetOptions) (*Set, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Watch == 0 {
		o.Watch = DefaultWatch
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{opts: o}
	s.handles.Store(&[]*Handle{})
	c, err := s.prepare(o.Files, o.FailOpen)
	if err != nil {
		return nil, err
	}
	c.Commit()
	return s, nil
}

// A Change is new lists for a set, already read but not in use yet.
type Change struct {
	set     *Set
	handles []*Handle
}

// Handle returns the list that will have the given name, or nil.
func (c *Change) Handle(name string) *Handle { return named(c.handles, name) }

// Commit replaces the lists of the set.
func (c *Change) Commit() { c.set.handles.Store(&c.handles) }

// Prepare is SetFiles without the change itself, which [Change.Commit] makes.
func (s *Set) Prepare(files []File) (*Change, error) { return s.prepare(files, false) }

func (s *Set) prepare(files []File, failOpen bool) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(files) > maxLists {
		return nil, fmt.Errorf("lists: %d lists, limit %d", len(files), maxLists)
	}
	seen := make(map[string]bool)
	var handles []*Handle
	for _, f := range files {
		if f.Name == "" || seen[f.Name] {
			return nil, fmt.Errorf("lists: name %.60q is empty or given twice", f.Name)
		}
		seen[f.Name] = true
		if h := s.Handle(f.Name); h != nil && h.file == f {
			handles = append(handles, h)
			continue
		}
		h := &Handle{file: f}
		if err := h.load(s.opts.MaxBytes); err != nil {
			if !failOpen {
				return nil, err
			}
			s.fault(h, err)
			s.opts.Log.Error("nothing is known of a list until its file can be read", "list", f.Name, "err", err)
		}
		handles = append(handles, h)
	}
	return &Change{s, handles}, nil
}

// load reads the list, even if the file has not changed.
func (h *Handle) load(limit int64) error {
	// The stamps are taken before reading, so that a change during the read is noticed next time.
	h.seen = h.file.stamps()
	l, err := Open(h.file.Path, limit)
	if err != nil {
		return err
	}
	// Users of this node know the list by its name in the configuration.
	l.meta.Name = h.file.Name
	h.list.Store(l)
	h.err.Store(nil)
	if l.Bytes() >= largeList {
		// Reading leaves garbage of several times the size of the list, and the old list.
		debug.FreeOSMemory()
	}
	return nil
}

// largeList is the size of a list, in bytes, from which it is worth running a garbage collection at
// once to return the memory used for reading.
const largeList = 4 << 20

// Handle returns the list with the given name, or nil.
func (s *Set) Handle(name string) *Handle { return named(*s.handles.Load(), name) }

func named(all []*Handle, name string) *Handle {
	for _, h := range all {
		if h.file.Name == name {
			return h
		}
	}
	return nil
}

// Handles returns all lists, in the order of the configuration.
func (s *Set) Handles() []*Handle { return *s.handles.Load() }

// Find returns a match for every list in which e is found.
func (s *Set) Find(e Entry) []Match {
	var all []Match
	for _, h := range *s.handles.Load() {
		if !h.Known() {
			continue
		}
		if m, ok := h.List().Find(e); ok {
			all = append(all, m)
		}
	}
	return all
}

// Reload reads the lists whose files have changed. A file that cannot be read leaves its list as it
// was; the errors are joined and logged. A fault in a file is reported once, and a system failure
// is retried the next time.
func (s *Set) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, h := range *s.handles.Load() {
		if now := h.file.stamps(); slices.EqualFunc(h.seen[:], now[:], wholefile.Stamp.Same) {
			continue
		}
		if err := h.load(s.opts.MaxBytes); err != nil {
			s.fault(h, err)
			if h.Known() {
				s.opts.Log.Warn("list keeps its old content", "list", h.file.Name, "err", err)
			} else {
				s.opts.Log.Error("still nothing is known of a list", "list", h.file.Name, "err", err)
			}
			errs = append(errs, err)
			continue
		}
		s.Reloads.Add(1)
		l := h.List()
		s.opts.Log.Info("list read", "list", h.file.Name, "entries", l.Count(), "allowed", l.Allowed(),
			"error", l.ErrorRate(), "updated", l.meta.Updated)
	}
	return errors.Join(errs...)
}

// fault records that the file of a list cannot be read.
func (s *Set) fault(h *Handle, err error) {
	s.Faults.Add(1)
	h.err.Store(&err)
	if trouble(err) {
		h.seen = [3]wholefile.Stamp{} // the file may be intact, and never change again
	}
}

// trouble reports whether err is the fault of the system and not of the file: no descriptor, no
// permission, a disk that does not answer. A missing file is not such a fault: when it comes back,
// it is another file.
func trouble(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && !errors.Is(err, fs.ErrNotExist)
}

// Run reloads lists whose files change until ctx ends.
func (s *Set) Run(ctx context.Context) {
	if s.opts.Watch < 0 {
		<-ctx.Done()
		return
	}
	for range clock.Ticks(ctx, s.opts.Watch) {
		_ = s.Reload() // logged and counted there
	}
}

// List returns the present list, nil if it is not known.
func (h *Handle) List() *List { return h.list.Load() }

// Known reports whether the list has been read since the set was opened. Nothing is found in an
// unknown list, which does not mean that its file lists nothing.
func (h *Handle) Known() bool { return h.List() != nil }

// Fault returns why the present file could not be read, so that the list is an older one or not
// known. It returns nil if the list is the one in the file.
func (h *Handle) Fault() error {
	if err := h.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Name returns the list's name in the configuration.
func (h *Handle) Name() string { return h.file.Name }

// Updated returns when the list was last built, extended or merged; the zero Time if the list is
// not known.
func (h *Handle) Updated() time.Time {
	if l := h.List(); l != nil {
		return l.meta.Updated
	}
	return time.Time{}
}

// Describe returns one line for clients that are refused because of this list: its reason, date and
// expected error.
func (h *Handle) Describe() string {
	l := h.List()
	if l == nil {
		return "list " + h.file.Name + " is not known"
	}
	reason := l.meta.Reason
	if reason == "" {
		reason = "listed in " + h.file.Name
	}
	return fmt.Sprintf("%s (list %s of %s, expected error %.1e)", reason, h.file.Name,
		l.meta.Updated.Format(time.DateOnly), l.rate)
}

// HasDomain reports whether a domain, in lower case and without a final dot, is listed.
func (h *Handle) HasDomain(name string) bool { return h.has(Entry{Domain, name}) }

// HasAddr reports whether an IP address, or a network around it, is listed.
func (h *Handle) HasAddr(a netip.Addr) bool {
	l := h.List()
	return l != nil && l.hasAddr(a)
}

// HasDigest reports whether a hash, in lower-case hexadecimal, is listed. Only a list of hashes
// holds any.
func (h *Handle) HasDigest(text string) bool {
	return h.Hash() != NoHash && h.has(Entry{Digest, text})
}

// FindDomain is [Handle.HasDomain] with the code and text that the entry has of its own.
func (h *Handle) FindDomain(name string) (code netip.Addr, text string, ok bool) {
	return h.value(Entry{Domain, name})
}

// FindAddr is [Handle.HasAddr] with the code and text that the entry has of its own. Of several networks around the
// address, the smallest counts.
func (h *Handle) FindAddr(a netip.Addr) (code netip.Addr, text string, ok bool) {
	if l := h.List(); l == nil || l.Valued() == 0 {
		return code, text, l != nil && l.hasAddr(a)
	}
	return h.value(AddrEntry(a))
}

// FindDigest is [Handle.HasDigest] with the code and text that the entry has of its own.
func (h *Handle) FindDigest(digest string) (code netip.Addr, text string, ok bool) {
	if h.Hash() == NoHash {
		return code, "", false
	}
	return h.value(Entry{Digest, digest})
}

// Default returns the code and text of entries without their own: the zero Addr and "" if the list has none.
func (h *Handle) Default() (code netip.Addr, text string) {
	if l := h.List(); l != nil {
		return l.values.all.Code, l.values.all.Text
	}
	return code, ""
}

func (h *Handle) value(e Entry) (code netip.Addr, text string, ok bool) {
	l := h.List()
	if l == nil {
		return code, "", false
	}
	found, _ := l.find(e)
	if found == "" {
		return code, "", false
	}
	v := l.valueOf(e.Kind, found)
	return v.Code, v.Text, true
}

// Hash returns the hash function of a list of hashes, "" for any other list and for one that is not
// known.
func (h *Handle) Hash() string {
	if l := h.List(); l != nil {
		return l.meta.Hash
	}
	return NoHash
}

func (h *Handle) has(e Entry) bool {
	l := h.List()
	if l == nil {
		return false
	}
	found, _ := l.find(e)
	return found != ""
}

// Edit changes the list called name and reads it again. Its error wraps [fs.ErrNotExist] if no list has
// the name.
func (s *Set) Edit(ctx context.Context, name string, ed *Edit) (Edited, error) {
	h := s.Handle(name)
	if h == nil {
		return Edited{}, fmt.Errorf("lists: no list is called %.100q: %w", name, fs.ErrNotExist)
	}
	out, err := ed.Apply(ctx, h.file.Path, s.opts.MaxBytes)
	if err != nil || ed.Dry {
		return out, err
	}
	return out, s.Reload()
}
