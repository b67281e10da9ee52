package dcc

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"sync"
	"time"

	digests "github.com/bulkhead-mail/bulkhead/digest/dcc"
)

// whiteFileEvery is how often files are checked for changes.
const whiteFileEvery = 5 * time.Second

// WhiteFiles are whitelists in the files of one folder, read again when they change. If
// a file cannot be read, its last list stays and the error is logged. Its methods may be
// called concurrently.
type WhiteFiles struct {
	// Folder holds the files and the files that they include.
	Folder fs.FS
	// Server means that the lists are a server's; see [ReadWhitelist].
	Server bool
	Now    func() time.Time // nil means time.Now
	Log    *slog.Logger     // nil discards

	mu    sync.Mutex
	files map[string]*whiteFile
}

type whiteFile struct {
	list    *Whitelist
	checked time.Time
	source  whiteSource
}

// A whiteSource is a file that a list was read from, as it was then.
type whiteSource struct {
	name    string
	changed time.Time
	size    int64
}

// same reports whether the file is unchanged.
func (w *whiteSource) same(info fs.FileInfo) bool {
	return info.ModTime().Equal(w.changed) && info.Size() == w.size
}

// maxWhiteFiles is the number of lists that are kept; the lists of further users are read each
// time.
const maxWhiteFiles = 10_000

// NewWhiteFiles returns the lists of the folder at dir.
func NewWhiteFiles(dir string, server bool, log *slog.Logger) *WhiteFiles {
	return &WhiteFiles{Folder: os.DirFS(dir), Server: server, Log: log}
}

// Get returns the list in the file called name, nil if there is none.
func (w *WhiteFiles) Get(name string) *Whitelist {
	now := time.Now()
	if w.Now != nil {
		now = w.Now()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.files[name]
	if f != nil && now.Sub(f.checked) < whiteFileEvery {
		return f.list
	}
	if f == nil {
		f = new(whiteFile)
		if w.files == nil {
			w.files = make(map[string]*whiteFile)
		}
		if len(w.files) < maxWhiteFiles {
			w.files[name] = f
		}
	}
	f.checked = now
	if err := w.refresh(name, f); err != nil && w.Log != nil {
		w.Log.Error("whitelist not read", "err", err, "consequence", "the previous one stays")
	}
	return f.list
}

// refresh reads the file if it has changed.
func (w *WhiteFiles) refresh(name string, f *whiteFile) error {
	file, err := w.Folder.Open(name)
	if os.IsNotExist(err) {
		*f = whiteFile{checked: f.checked}
		return nil
	}
	if err != nil {
		return fmt.Errorf("dcc: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("dcc: %w", err)
	}
	if f.list != nil && f.source.same(info) && w.included(f.list) {
		return nil
	}
	list, err := ReadWhitelist(w.Folder, name, file, w.Server)
	if err != nil {
		return err
	}
	f.list, f.source = list, whiteSource{name, info.ModTime(), info.Size()}
	return nil
}

// included reports whether the files that a list includes are unchanged.
func (w *WhiteFiles) included(list *Whitelist) bool {
	for i := range list.included {
		s := &list.included[i]
		if info, err := fs.Stat(w.Folder, s.name); err != nil || !s.same(info) {
			return false
		}
	}
	return true
}

// User returns the list of a user: USER/whiteclnt in the folder. A name that is not a
// single path element has none.
func (w *WhiteFiles) User(name string) *Whitelist {
	const maxName = 128
	if name == "" || name == "." || name == ".." || len(name) > maxName || path.Base(name) != name || !fs.ValidPath(name) {
		return nil
	}
	return w.Get(name + "/whiteclnt")
}

// ParseThreshold reads "type,count", for example "CMN,many": the type CMN
// stands for Body, Fuz1 and Fuz2, the count "never" for no threshold. Its
// error wraps bulkhead.ErrMalformed.
func ParseThreshold(text string) (map[digests.Type]uint32, error) {
	t, err := cutThreshold(text)
	if err != nil {
		return nil, malformed("threshold: %v", err)
	}
	return t, nil
}
