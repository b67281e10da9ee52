// Package aside keeps generations that have aged out in files of a folder, so that they can be brought
// back for a day. The day is time that the node has run, which no clock can set.
package aside

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-mail/bulkhead/internal/engine/book"
	"github.com/bulkhead-mail/bulkhead/internal/engine/pages"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// Kept is how long the node runs until a file is removed.
const Kept = 24 * time.Hour

// Files of a folder: one for each generation, and the running time.
const (
	prefix  = "generation-"
	runFile = "running"
)

// Bounds on a file.
const (
	maxHead = 64 << 10 // bytes of a header
	maxPage = 2 << 20  // bytes of the encoding of a page
)

// ErrDamaged is wrapped by errors that report a damaged file.
var ErrDamaged = errors.New("engine: damaged file of an aged generation")

// A Generation describes a generation of the tally or of the blocklist.
type Generation struct {
	Tally  *book.TallySpec `json:"tally,omitempty"`
	Block  *book.BlockSpec `json:"blocklist,omitempty"`
	Arrays []string        `json:"arrays"` // names, in the order of the file
	Ran    time.Duration   `json:"ran"`    // running time of the node when the file was written
}

// Start returns the start of the generation in Unix seconds, and the name of its book.
func (g *Generation) Start() (start uint64, name string) {
	if g.Tally != nil {
		return g.Tally.Start, "tally"
	}
	return g.Block.Start, "blocklist"
}

// A Folder holds the files. Its methods may be called concurrently.
type Folder struct {
	dir    string
	uptime func() time.Duration

	mu     sync.Mutex
	before time.Duration // running time of earlier processes
}

// Open returns the folder dir, which is made when the first file is written. uptime returns for how long
// the process has run.
func Open(dir string, uptime func() time.Duration) *Folder {
	f := &Folder{dir: dir, uptime: uptime}
	if err := wholefile.ReadJSON(filepath.Join(dir, runFile), &f.before); err != nil {
		f.before = 0 // the files are then kept for longer
	}
	f.before -= uptime()
	return f
}

// ran returns for how long the node has run, over all its processes.
func (f *Folder) ran() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.before + f.uptime()
}

// Save writes a generation, whose arrays have the names in g. It copies pages in functions that it
// passes to between. It replaces an earlier file of the generation.
func (f *Folder) Save(g *Generation, arrays []pages.Array, between func(func())) error {
	if err := wholefile.MakeFolder(f.dir); err != nil {
		return err
	}
	g.Ran = f.ran()
	head, err := json.Marshal(g)
	if err != nil {
		return err
	}
	start, name := g.Start()
	path := filepath.Join(f.dir, fmt.Sprintf("%s%s-%d", prefix, name, start))
	return wholefile.Replace(path, func(w io.Writer) error {
		if _, err := w.Write(append(head, '\n')); err != nil {
			return err
		}
		for _, a := range arrays {
			if err := pages.Writer(a, between)(w); err != nil {
				return err
			}
		}
		return nil
	})
}

// List returns the files with their generations, oldest first. Damaged files are left out.
func (f *Folder) List() map[string]Generation {
	out := make(map[string]Generation)
	for _, path := range f.files() {
		if g, r, err := open(path); err == nil {
			r.Close()
			out[path] = g
		}
	}
	return out
}

func (f *Folder) files() []string {
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return nil // there is none
	}
	var out []string
	for _, e := range list {
		if strings.HasPrefix(e.Name(), prefix) {
			out = append(out, filepath.Join(f.dir, e.Name()))
		}
	}
	return out
}

// A file is an open file behind its header.
type file struct {
	*bufio.Reader
	io.Closer
}

func open(path string) (g Generation, r *file, err error) {
	f, err := os.Open(path)
	if err != nil {
		return g, nil, err
	}
	r = &file{bufio.NewReaderSize(f, maxHead), f}
	if g, err = readHead(r.Reader); err != nil {
		f.Close()
		return g, nil, fmt.Errorf("%w: %s: %v", ErrDamaged, filepath.Base(path), err)
	}
	return g, r, nil
}

func readHead(r *bufio.Reader) (g Generation, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return g, err
	}
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&g); err != nil {
		return g, err
	}
	if (g.Tally == nil) == (g.Block == nil) {
		return g, errors.New("want a generation of one book")
	}
	return g, nil
}

// Pages calls take with every page of a file of [Folder.List], encoded, and the name of its array. size returns
// the number of pages of an array. An error wraps [ErrDamaged], or is an error of take.
func Pages(path string, size func(array string) int, take func(array string, page []byte) error) error {
	g, r, err := open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	return readPages(r, &g, size, take)
}

func readPages(r io.Reader, g *Generation, size func(array string) int,
	take func(array string, page []byte) error) error {
	for _, name := range g.Arrays {
		for range size(name) {
			var length [4]byte
			if _, err := io.ReadFull(r, length[:]); err != nil {
				return fmt.Errorf("%w: %s: %v", ErrDamaged, name, err)
			}
			n := binary.LittleEndian.Uint32(length[:])
			if n > maxPage {
				return fmt.Errorf("%w: a page of %d bytes, limit %d", ErrDamaged, n, maxPage)
			}
			page := make([]byte, n)
			if _, err := io.ReadFull(r, page); err != nil {
				return fmt.Errorf("%w: %s: %v", ErrDamaged, name, err)
			}
			if err := take(name, page); err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove removes a file of [Folder.List].
func (f *Folder) Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Tick records the running time, and removes the files that were kept for a day of it. Without files it
// does nothing.
func (f *Folder) Tick() error {
	files := f.files()
	if len(files) == 0 {
		return nil
	}
	ran := f.ran()
	data, err := json.Marshal(ran)
	if err == nil {
		err = wholefile.Replace(filepath.Join(f.dir, runFile), wholefile.Bytes(data))
	}
	list := f.List()
	for path, g := range list {
		if ran-g.Ran > Kept {
			err = errors.Join(err, f.Remove(path))
		}
	}
	// A damaged file cannot be brought back.
	for _, path := range files {
		if _, ok := list[path]; !ok {
			err = errors.Join(err, f.Remove(path))
		}
	}
	return err
}

// Sorted returns the paths of generations, oldest generations first.
func Sorted(list map[string]Generation) []string {
	var out []string
	for path := range list {
		out = append(out, path)
	}
	slices.SortFunc(out, func(a, b string) int {
		x, y := list[a], list[b]
		s, _ := x.Start()
		u, _ := y.Start()
		if s != u {
			return int(int64(s - u))
		}
		return strings.Compare(a, b)
	})
	return out
}
