package lesson

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/wholefile"
)

// The files of an exchange. Without them, the node teaches anew, and asks its peers again.
const (
	taughtFile = "lessons.taught"
	heldFile   = "lessons.held"
	fileMagic  = "bulkhead lessons 1\n"
)

// An Exchange is a node's part in learning together.
type Exchange struct {
	*Teacher
	*Class
}

// Options are the settings of an exchange. All are required.
type Options struct {
	Source Source
	Bytes  uint64                     // bound of the memory for what peers teach
	Known  func(keyID uint64) bool    // secrets of the network
	Set    func(others *learn.Others) // receives what all peers know
}

// New returns an exchange without peers.
func New(o Options) *Exchange {
	return &Exchange{NewTeacher(o.Source), NewClass(o.Bytes, o.Known, o.Set)}
}

// Load reads the files of an exchange in a folder, for the peers with the given weights. The error of a
// damaged file is for the log: the exchange continues without it.
func (x *Exchange) Load(dir string, weights map[string]float64) error {
	x.Keep(weights)
	taught, err1 := readFile(filepath.Join(dir, taughtFile))
	x.restore(taught[""])
	held, err2 := readFile(filepath.Join(dir, heldFile))
	for id, lessons := range held {
		for _, l := range lessons {
			if _, ok := weights[id]; ok {
				_ = x.Class.take(id, l, true) // what no longer fits is asked for again
			}
		}
	}
	x.Combine()
	return errors.Join(err1, err2)
}

// SaveTaught writes what the node has taught, for [Exchange.Load].
func (x *Exchange) SaveTaught(dir string) error {
	return writeFile(filepath.Join(dir, taughtFile), map[string][]*Lesson{"": x.Teacher.saved()})
}

// SaveHeld writes what the peers have taught, if it has changed since the last call without an error.
func (x *Exchange) SaveHeld(dir string) error {
	held, ok := x.Class.saved()
	if !ok {
		return nil
	}
	err := writeFile(filepath.Join(dir, heldFile), held)
	if err != nil {
		x.Class.unsaved()
	}
	return err
}

// saved returns what is held of each origin, as lessons. ok is false if it has not changed.
func (c *Class) saved() (held map[string][]*Lesson, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return nil, false
	}
	c.dirty = false
	held = make(map[string][]*Lesson)
	for id, o := range c.origins {
		if o.table == 0 {
			continue
		}
		live := make([]Mark, len(o.gens))
		for i, g := range o.gens {
			live[i] = g.Mark
		}
		held[id] = append(held[id], &Lesson{Table: o.table, Live: live})
		for i, g := range o.gens {
			if g.Round > 0 {
				held[id] = append(held[id], partsOf(g.entries, Lesson{Table: o.table, Live: live, Of: i})...)
			}
		}
	}
	return held, true
}

// unsaved makes the next saved return everything, because what the last one returned was not written.
func (c *Class) unsaved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dirty = true
}

// partsOf returns lessons like l with all entries, which ascend.
func partsOf(all []Entry, l Lesson) (out []*Lesson) {
	l.Parts = uint32(max(1, (len(all)+MaxEntries-1)/MaxEntries))
	for l.Part = range l.Parts {
		n := min(len(all), MaxEntries)
		part := l
		part.Entries = all[:n:n]
		out, all = append(out, &part), all[n:]
	}
	return out
}

// writeFile writes lessons by origin: a magic line, the SHA-256 of the rest, and for each lesson its origin
// and its bytes, each with its length before it.
func writeFile(path string, lessons map[string][]*Lesson) error {
	var body []byte
	for id, list := range lessons {
		for _, l := range list {
			body = append(binary.AppendUvarint(body, uint64(len(id))), id...)
			raw := l.Append(nil)
			body = append(binary.AppendUvarint(body, uint64(len(raw))), raw...)
		}
	}
	sum := sha256.Sum256(body)
	return wholefile.Replace(path, wholefile.Bytes(bytes.Join([][]byte{[]byte(fileMagic), sum[:], body}, nil)))
}

// readFile reads what writeFile wrote. An absent file has no lessons.
func readFile(path string) (map[string][]*Lesson, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lesson: %w", err)
	}
	out, err := parseFile(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return out, nil
}

func parseFile(raw []byte) (map[string][]*Lesson, error) {
	raw, ok := bytes.CutPrefix(raw, []byte(fileMagic))
	if !ok || len(raw) < sha256.Size {
		return nil, fmt.Errorf("%w: not a file of lessons", errLesson)
	}
	if sha256.Sum256(raw[sha256.Size:]) != [sha256.Size]byte(raw) {
		return nil, fmt.Errorf("%w: damaged file", errLesson)
	}
	out := make(map[string][]*Lesson)
	d := decoder{left: raw[sha256.Size:]}
	for len(d.left) > 0 {
		id, one := d.bytes(), d.bytes()
		if d.bad {
			return nil, d.end()
		}
		l, err := Parse(one)
		if err != nil {
			return nil, err
		}
		out[string(id)] = append(out[string(id)], l)
	}
	return out, nil
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.left)) {
		d.bad = true
		return nil
	}
	out := d.left[:n]
	d.left = d.left[n:]
	return out
}
