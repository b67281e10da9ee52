package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DefaultMaxBytes is the size of the largest message that is read unless [Options] say
// otherwise.
const DefaultMaxBytes = 64 << 20

// Labels of messages, as an index has them.
const (
	Ham  = "ham"
	Spam = "spam"
)

// A Message is one stored mail.
type Message struct {
	// Raw is the message. In an mbox the "From " line is left out and escaped lines
	// (">From ") are restored; a file that is read as a single message keeps such a line.
	// Raw belongs to the receiver.
	Raw []byte
	// File is the path of the file, "-" for standard input.
	File string
	// Offset is where in the file the message begins, in bytes; 0 unless the file is an mbox.
	Offset int64
	// Mbox reports that the file is an mbox, which may hold several messages.
	Mbox bool
	// Label is [Ham] or [Spam] from an index, Options.Label otherwise, "" if
	// neither is known.
	Label string
	// Time is when the message arrived: from the index, the mbox's "From " line or the name
	// of the Maildir file, or else from the topmost Received field or the Date field; zero if
	// none of them can be read.
	Time time.Time
	// Columns is the row of the index by the names of its columns; nil without an
	// index.
	Columns map[string]string
}

// Name returns the file, with the offset if it holds several messages.
func (m *Message) Name() string {
	if m.Offset > 0 {
		return fmt.Sprintf("%s:%d", m.File, m.Offset)
	}
	return m.File
}

// Options are the settings of [Read]. The zero Options are valid.
type Options struct {
	Label    string    // label of messages without one of their own
	MaxBytes int       // largest message; 0 means [DefaultMaxBytes]
	Stdin    io.Reader // input for "-"; nil means os.Stdin
	// Folders makes Read also read the folders inside a Maildir (Maildir++), after the Maildir's own
	// messages and in the order of their names.
	Folders bool
}

// Folders returns the names of the folders inside a Maildir, such as ".Junk", in order; none
// if path is no Maildir or cannot be read.
func Folders(path string) (names []string) {
	if !isMaildir(path) {
		return nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() && len(e.Name()) > 1 && e.Name()[0] == '.' && e.Name() != ".." &&
			isMaildir(filepath.Join(path, e.Name())) {
			names = append(names, e.Name())
		}
	}
	return names
}

func isMaildir(path string) bool {
	return exists(filepath.Join(path, "cur")) || exists(filepath.Join(path, "new"))
}

// Read returns the messages of path in stored order:
//
//   - "-": standard input, one message or an mbox;
//   - a folder with index.tsv: the files that the index lists, in its order;
//   - a folder with cur or new: a Maildir, in the order of delivery;
//   - another folder: its *.eml and *.emlx files, in the order of their names;
//   - a file *.eml, or *.emlx of Apple Mail: one message;
//   - another file: an mbox if it begins with "From ", else one message.
//
// An error names the file and the place, and the next message follows if there is one. Read
// ends when the loop breaks, or with ctx's error when ctx ends.
func Read(ctx context.Context, path string, opts Options) iter.Seq2[*Message, error] {
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	return func(yield func(*Message, error) bool) {
		r := reader{opts: opts}
		r.yield = func(m *Message, err error) bool {
			if ctxErr := ctx.Err(); ctxErr != nil {
				if !r.done {
					r.done = true
					yield(nil, fmt.Errorf("mailbox: %w", ctxErr))
				}
				return false
			}
			r.done = !yield(m, err)
			return !r.done
		}
		r.path(path)
	}
}

// A reader holds the state of one Read. Its methods report false when the loop has ended.
type reader struct {
	opts  Options
	yield func(*Message, error) bool
	done  bool
	row   map[string]string // of the index being read
}

func (r *reader) fail(format string, args ...any) bool {
	return r.yield(nil, fmt.Errorf("mailbox: "+format, args...))
}

func (r *reader) path(path string) bool {
	if path == "-" {
		in := r.opts.Stdin
		if in == nil {
			in = os.Stdin
		}
		return r.stream("-", in, false, time.Time{}, r.opts.Label)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return r.fail("%w", err)
	case !info.IsDir():
		return r.file(path, time.Time{}, r.opts.Label, isMessageFile(path))
	case exists(filepath.Join(path, IndexName)):
		return r.index(path)
	case isMaildir(path):
		if !r.maildir(path) {
			return false
		}
		if r.opts.Folders {
			for _, name := range Folders(path) {
				if !r.maildir(filepath.Join(path, name)) {
					return false
				}
			}
		}
		return true
	}
	return r.folder(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// file reads one file: always as one message if single, else by its content.
func (r *reader) file(path string, at time.Time, label string, single bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return r.fail("%w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return r.fail("%s: a folder, want a message", path)
	}
	return r.stream(path, f, single, at, label)
}

// stream reads a message or an mbox from in.
func (r *reader) stream(name string, in io.Reader, single bool, at time.Time, label string) bool {
	box := newMbox(in, r.opts.MaxBytes)
	if !single && box.begins() {
		return r.mbox(name, box, label)
	}
	raw, err := io.ReadAll(io.LimitReader(box.r, int64(r.opts.MaxBytes)+1))
	switch {
	case err != nil:
		return r.fail("%s: %w", name, err)
	case len(raw) > r.opts.MaxBytes:
		return r.fail("%s: message longer than %d bytes", name, r.opts.MaxBytes)
	case len(raw) == 0:
		return r.fail("%s: empty file, want a message", name)
	}
	if at.IsZero() {
		at = messageTime(begin(raw))
	}
	return r.yield(&Message{Raw: raw, File: name, Label: label, Time: at, Columns: r.row}, nil)
}

func (r *reader) mbox(name string, box *mbox, label string) bool {
	for {
		raw, fromLine, offset, err := box.next()
		if errors.Is(err, io.EOF) {
			return true
		}
		var long *tooLongError
		switch {
		case errors.As(err, &long):
			if !r.fail("%s: offset %d: %w", name, offset, err) {
				return false
			}
			continue
		case err != nil:
			return r.fail("%s: offset %d: %w", name, offset, err)
		}
		at := fromLineTime(fromLine)
		if at.IsZero() {
			at = messageTime(raw)
		}
		if !r.yield(&Message{Raw: raw, File: name, Offset: offset, Mbox: true, Label: label, Time: at}, nil) {
			return false
		}
	}
}

func (r *reader) folder(path string) bool {
	entries, err := os.ReadDir(path)
	if err != nil {
		return r.fail("%w", err)
	}
	found := false
	for _, entry := range entries {
		if entry.IsDir() || !isMessageFile(entry.Name()) {
			continue
		}
		found = true
		if !r.file(filepath.Join(path, entry.Name()), time.Time{}, r.opts.Label, true) {
			return false
		}
	}
	if !found {
		return r.fail("%s: no mail here: want index.tsv, cur, new or *.eml files", path)
	}
	return true
}

// maildir reads new and cur. The names of files begin with the second of their delivery, so
// they give order and time.
func (r *reader) maildir(path string) bool {
	type file struct {
		path, name string
		at         time.Time
	}
	var files []file
	for _, sub := range []string{"new", "cur"} {
		entries, err := os.ReadDir(filepath.Join(path, sub))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r.fail("%w", err)
		}
		for _, entry := range entries {
			if name := entry.Name(); !entry.IsDir() && !strings.HasPrefix(name, ".") {
				files = append(files, file{filepath.Join(path, sub, name), name, deliveryTime(name)})
			}
		}
	}
	slices.SortStableFunc(files, func(a, b file) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	for _, f := range files {
		if !r.file(f.path, f.at, r.opts.Label, true) {
			return false
		}
	}
	return true
}

// startsFrom reports whether line can begin a message of an mbox.
func startsFrom(line []byte) bool { return bytes.HasPrefix(line, []byte("From ")) }
