package lists

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/filter"
)

// DefaultError is the false-positive rate a list is built for.
const DefaultError = 1e-6

// maxShown is how many bad lines of a file an error lists.
const maxShown = 10

// Options configure how a list is built.
type Options struct {
	Name   string // empty: the name of the file, without folders and ending
	Tone   Tone   // empty: Black
	Reason string // shown to clients that are refused
	// Error is the wanted false-positive rate of one element, between 0 and 1; 0 means
	// [DefaultError].
	Error float64
	// Capacity is how many entries the list has room for. The number of entries in the sources is
	// the minimum, and is used if Capacity is 0.
	Capacity uint64
	// Exact makes a domain stand for itself only, not for its subdomains.
	Exact bool
	// Hash makes a list of hashes: the md5, sha1 or sha256 of each entry. Lines that are such a
	// hash already are stored unchanged. Empty: no hashes.
	Hash string
	// Eigen is the eigenvalue of the second section. 0 means [filter.EigenHash], the only
	// eigenvalue with the error rate that the paper claims.
	Eigen filter.Eigenvalue
	// Structure is the kind of filter; empty means [TwoPart]. A [Fuse] list has no Capacity, no
	// Eigen and no Like. It takes about 50 bytes of memory for each entry while it is built.
	Structure Structure
	// Like gives the list the shape and key of another list, so that the two can be merged. Error,
	// Capacity, Structure and Eigen are then ignored.
	Like *List
	// SkipBad skips lines that are not entries. Otherwise they are an error, and nothing is
	// written.
	SkipBad bool
	// Now returns the time that the list gets; nil means time.Now.
	Now func() time.Time
	// Progress is called periodically with the number of lines added so far; it may be nil.
	Progress func(lines uint64)
}

// A Result is the outcome of [Build] or [Add].
type Result struct {
	List  *List
	Lines uint64 // entries read
	New   uint64 // elements that the filter did not hold before
	Bad   uint64 // lines skipped
}

// Build makes a list from text files and writes it to path, which is replaced as a whole or not at
// all, and only if it is a list. Sources without any entry are an error, so that a failed download
// empties no list; Options.Capacity allows an empty list. Each source is read twice, first to
// determine the size of the filter, so it must be a file and not a pipe. Building a two-part list
// takes only the memory of its filter, however long the files are; for a fuse list see [Options].
func Build(ctx context.Context, path string, sources []string, o Options) (Result, error) {
	if err := errors.Join(o.defaults(path), replaceable(path)); err != nil {
		return Result{}, err
	}
	var lines uint64
	for _, source := range sources {
		n, err := countLines(ctx, source)
		if err != nil {
			return Result{}, err
		}
		lines += n
	}
	l, err := empty(o, max(lines, o.Capacity, 1))
	if err != nil {
		return Result{}, err
	}
	if o.Structure == Fuse {
		return l.fuseOf(ctx, path, sources, o)
	}
	return l.fill(ctx, path, sources, o)
}

// fuseOf collects the sources, builds a fuse filter from them, and writes it.
func (l *List) fuseOf(ctx context.Context, path string, sources []string, o Options) (Result, error) {
	var secret filter.Secret
	rand.Read(secret[:]) // never fails: crypto/rand ends the process instead
	b, err := filter.NewFuseBuilder(o.Error, secret)
	if err != nil {
		return Result{}, fmt.Errorf("lists: %w", err)
	}
	var full error
	l.insert = func(text []byte) bool {
		if err := b.Add(text); err != nil {
			full = err
		}
		return false // fuseOf counts the new elements at the end
	}
	r, err := l.take(ctx, sources, o)
	if l.insert = nil; err == nil && full != nil {
		err = fmt.Errorf("lists: %w", full)
	}
	if err = errors.Join(err, o.nothing(r)); err != nil {
		return Result{}, err
	}
	if l.fuse, err = b.Build(); err != nil {
		return Result{}, fmt.Errorf("lists: %w", err)
	}
	l.fuse.Publish() // see empty
	r.New = l.fuse.Count()
	l.meta.Capacity = max(1, r.New)
	return r, l.save(path)
}

func (o *Options) defaults(path string) error {
	if o.Name == "" {
		o.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if o.Tone == "" {
		o.Tone = Black
	}
	if o.Error == 0 {
		o.Error = DefaultError
	}
	if o.Eigen == 0 {
		o.Eigen = filter.EigenHash
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	switch o.Structure {
	case "":
		o.Structure = TwoPart
	case TwoPart:
	case Bits:
		if o.Eigen != filter.EigenHash {
			return errors.New("lists: only a two-part list has an eigenvalue")
		}
	case Fuse:
		if o.Capacity > 0 || o.Like != nil || o.Eigen != filter.EigenHash {
			return fmt.Errorf(
				"lists: %w: a fuse list has no room for more entries, no eigenvalue, and is not like another list", ErrStatic)
		}
	default:
		return fmt.Errorf("lists: structure %.20q is none of two-part, bits, fuse", o.Structure)
	}
	if o.Hash != NoHash && digestSize(o.Hash) == 0 {
		return fmt.Errorf("lists: hash %.20q is none of md5, sha1, sha256", o.Hash)
	}
	return nil
}

func empty(o Options, n uint64) (*List, error) {
	l := &List{meta: Meta{
		Format: metaFormat, Name: o.Name, Tone: o.Tone, Reason: o.Reason, Built: o.Now().UTC().Truncate(time.Second),
		Error: o.Error, Capacity: n, Kinds: make(map[string]uint64), Subdomains: !o.Exact, Hash: o.Hash, Sources: []Source{},
	}}
	if err := l.meta.validate(); err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	if o.Structure == Fuse {
		if !(o.Error > 0 && o.Error < 1) {
			return nil, fmt.Errorf("lists: error %g, want above 0 and below 1", o.Error)
		}
		return l, nil
	}
	if o.Like != nil {
		if err := o.Like.changeable(); err != nil {
			return nil, err
		}
		l.meta.Error, l.meta.Capacity = o.Like.meta.Error, o.Like.meta.Capacity
		return l, l.emptyLike(o.Like)
	}
	var secret filter.Secret
	rand.Read(secret[:]) // never fails: crypto/rand ends the process instead
	if o.Structure == Bits {
		var err error
		if l.bits, err = filter.NewStringBits(n, o.Error, secret); err != nil {
			return nil, fmt.Errorf("lists: %w", err)
		}
		l.bits.Publish() // see below
		return l, nil
	}
	shape, err := filter.SizeTwoPart(n, o.Error, o.Eigen)
	if err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	if l.filter, err = filter.NewTwoPart(shape, secret); err != nil {
		return nil, fmt.Errorf("lists: %w", err)
	}
	// The file carries its key, so that every recipient of the list can use it.
	l.filter.Publish()
	return l, nil
}

// Add adds the entries of text files to the list at path, which may be at most limit bytes long,
// and rewrites it. If the error rate would rise above the wanted rate, Add fails and writes
// nothing, unless overfill is set. For a fuse list the error wraps [ErrStatic].
func Add(ctx context.Context, path string, limit int64, sources []string, overfill bool, o Options) (Result, error) {
	if err := o.defaults(path); err != nil {
		return Result{}, err
	}
	unlock, err := lock(path)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	l, err := Open(path, limit)
	if err != nil {
		return Result{}, err
	}
	if err := l.changeable(); err != nil {
		return Result{}, err
	}
	before := l.Count()
	r, err := l.take(ctx, sources, o)
	if err != nil {
		return Result{}, err
	}
	if rate := l.set().ErrorRate(); !overfill && rate > 1.05*l.meta.Error {
		return Result{}, fmt.Errorf(
			"lists: %d entries beside %d raise the error rate to %.3g, limit %.3g; build the list again with a "+
				"larger --capacity",
			r.New, before, rate, l.meta.Error)
	}
	return r, l.save(path)
}

// nothing returns an error if the sources of a new list had no entry, and the list is not made for later ones.
func (o *Options) nothing(r Result) error {
	switch {
	case r.Lines > 0 || o.Capacity > 0 || o.Like != nil:
		return nil
	case r.Bad > 0:
		return fmt.Errorf("lists: none of %d lines is an entry", r.Bad)
	}
	return errors.New("lists: the text has no entry; an empty list needs --capacity")
}

// fill adds the sources to a new list and writes it.
func (l *List) fill(ctx context.Context, path string, sources []string, o Options) (Result, error) {
	r, err := l.take(ctx, sources, o)
	if err = errors.Join(err, o.nothing(r)); err != nil {
		return Result{}, err
	}
	return r, l.save(path)
}

// save writes the list and its codes. The codes come first: a node that reads in between must not answer for new
// entries without their codes.
func (l *List) save(path string) error {
	if err := l.writeCodes(path); err != nil {
		return err
	}
	return l.write(path)
}

func (l *List) write(path string) error {
	l.rate = l.set().ErrorRate()
	return writeFile(path, l.encode)
}

// take adds the entries of the sources.
func (l *List) take(ctx context.Context, sources []string, o Options) (Result, error) {
	r := Result{List: l}
	var bad []error
	for _, name := range sources {
		if err := l.takeFile(ctx, name, o, &r, &bad); err != nil {
			return Result{}, err
		}
	}
	if r.Bad > 0 && !o.SkipBad {
		if others := r.Bad - uint64(len(bad)); others > 0 {
			bad = append(bad, fmt.Errorf("lists: and %d more", others))
		}
		return Result{}, errors.Join(bad...)
	}
	l.meta.Updated = o.Now().UTC().Truncate(time.Second)
	return r, nil
}

func (l *List) takeFile(ctx context.Context, name string, o Options, r *Result, bad *[]error) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("lists: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	var taken uint64
	in := lines{list: l, all: l.values.all, lead: len(l.meta.Sources) == 0}
	err = eachLine(io.TeeReader(f, sum), func(n int, line string) error {
		if n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, err := in.next(line)
		if errors.Is(err, errFull) {
			return err
		}
		if err != nil {
			if r.Bad++; len(*bad) < maxShown {
				*bad = append(*bad, fmt.Errorf("%s: line %d: %w", filepath.Base(name), n, err))
			}
			return nil
		}
		if e.Kind == 0 {
			return nil
		}
		if l.add(e) {
			r.New++
		}
		r.Lines++
		if taken++; taken%100_000 == 0 && o.Progress != nil {
			o.Progress(r.Lines)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	l.meta.Sources = append(l.meta.Sources, Source{
		Name: filepath.Base(name), SHA256: hex.EncodeToString(sum.Sum(nil)), Entries: taken,
		Read: o.Now().UTC().Truncate(time.Second),
	})
	return nil
}

// parse reads one line: an entry or, for a list of hashes, a hash.
func (l *List) parse(line string) (Entry, error) {
	if l.meta.Hash != NoHash {
		if e, err := DigestEntry(l.meta.Hash, line); err == nil {
			return e, nil
		}
	}
	return ParseEntry(line)
}

// add puts e into the filter and reports whether it was new.
func (l *List) add(e Entry) bool {
	l.meta.Kinds[e.Kind.String()]++
	if e.Kind == Network {
		var bits int
		_, length, _ := strings.Cut(e.Text, "/")
		for _, c := range length {
			bits = 10*bits + int(c-'0')
		}
		l.meta.noteLength(bits, strings.Contains(e.Text, ":"))
	}
	return l.put([]byte(l.element(e)))
}

func countLines(ctx context.Context, name string) (n uint64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, fmt.Errorf("lists: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return 0, fmt.Errorf("lists: %s is not a regular file, and must be read twice", name)
	}
	err = eachLine(f, func(line int, text string) error {
		if valueAt(text) != 0 {
			n++
		}
		if line%4096 == 0 {
			return ctx.Err()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return n, nil
}

// Merge writes to path the union of lists that were built like each other (see [Options].Like),
// each at most limit bytes long. Name and reason come from the first list; all tones must be equal.
// The union allows every entry that any input allows. A nil now means time.Now.
func Merge(path string, limit int64, inputs []string, now func() time.Time) (*List, error) {
	if len(inputs) < 2 {
		return nil, fmt.Errorf("lists: merge of %d lists, want at least 2", len(inputs))
	}
	if now == nil {
		now = time.Now
	}
	if err := replaceable(path); err != nil {
		return nil, err
	}
	merged, err := Open(inputs[0], limit)
	if err != nil {
		return nil, err
	}
	for _, name := range inputs[1:] {
		l, err := Open(name, limit)
		if err != nil {
			return nil, err
		}
		if err := merged.join(l); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := joinAllow(path, inputs); err != nil {
		return nil, err
	}
	merged.meta.Updated = now().UTC().Truncate(time.Second)
	return merged, merged.save(path)
}

// joinAllow adds the missing entries of the inputs' allow lists to the allow list next to path.
func joinAllow(path string, inputs []string) error {
	have, err := readAllow(path + AllowSuffix)
	if err != nil {
		return err
	}
	missing := make(map[string]struct{})
	for _, name := range inputs {
		allow, err := readAllow(name + AllowSuffix)
		if err != nil {
			return err
		}
		for text := range allow {
			if _, known := have[text]; !known {
				missing[text] = struct{}{}
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return Allow(path, slices.Sorted(maps.Keys(missing)))
}

func (l *List) join(o *List) error {
	if err := errors.Join(l.changeable(), o.changeable()); err != nil {
		return err
	}
	switch {
	case l.meta.Hash != o.meta.Hash:
		return fmt.Errorf("lists: a list of hash %q cannot be merged into one of %q", o.meta.Hash, l.meta.Hash)
	case l.meta.Subdomains != o.meta.Subdomains:
		return errors.New("lists: one list includes subdomains, the other does not")
	case l.meta.Tone != o.meta.Tone:
		return fmt.Errorf("lists: a %s list cannot be merged into a %s one", o.meta.Tone, l.meta.Tone)
	}
	if err := l.joinCodes(o); err != nil {
		return err
	}
	if err := l.merge(o); err != nil {
		return fmt.Errorf("lists: build one list like the other to merge them: %w", err)
	}
	for kind, n := range o.meta.Kinds {
		l.meta.Kinds[kind] += n
	}
	for _, bits := range o.meta.V4 {
		l.meta.noteLength(bits, false)
	}
	for _, bits := range o.meta.V6 {
		l.meta.noteLength(bits, true)
	}
	l.meta.Sources = append(l.meta.Sources, o.meta.Sources...)
	return nil
}

// Allow adds entries to the allow list next to the list at path, without reading the list.
func Allow(path string, entries []string) error {
	var normal []string
	for _, text := range entries {
		e, err := ParseEntry(text)
		if err != nil {
			return err
		}
		normal = append(normal, e.Text)
	}
	return editAllowed(path, func(old string) string { return endLine(old) + strings.Join(normal, "\n") + "\n" })
}

// endLine returns text with an end of its last line.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// editAllowed changes the allow list next to the list at path.
func editAllowed(path string, change func(old string) string) error {
	unlock, err := lock(path)
	if err != nil {
		return err
	}
	defer unlock()
	path += AllowSuffix
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("lists: %w", err)
	}
	text := change(string(old))
	if text == string(old) {
		return nil
	}
	return writeFile(path, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
