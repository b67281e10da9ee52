package lists

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// MaxEdit is the largest number of entries that one [Edit] adds and removes.
const MaxEdit = 10_000

// An Edit adds entries to a list and removes entries from it. Filters hold no entries that could be
// taken out, so a removed entry goes into the allow list beside the list.
type Edit struct {
	Add, Remove []string // entries as in a text file
	Source      string   // where they come from, for the list's description
	Dry         bool     // only determine the result
	Now         func() time.Time
}

// An Edited is the result of an [Edit]. Entries are in their normal form.
type Edited struct {
	Added    []string // new in the list
	Restored []string // out of the allow list, so that the list finds them again
	Removed  []string // new in the allow list
	Known    int      // entries to add that the list already finds
	Absent   int      // entries to remove that the list does not find
}

// Apply edits the list at path, which may be at most limit bytes long, and replaces its file. Mistakes
// in the entries are errors, joined, and change nothing. So is a list that would exceed its error rate,
// and for a fuse list an entry to add, with [ErrStatic].
func (ed *Edit) Apply(ctx context.Context, path string, limit int64) (out Edited, err error) {
	if n := len(ed.Add) + len(ed.Remove); n > MaxEdit {
		return out, fmt.Errorf("lists: %d entries, limit %d", n, MaxEdit)
	}
	unlock, err := lock(path)
	if err != nil {
		return out, err
	}
	defer unlock()
	l, err := Open(path, limit)
	if err != nil {
		return out, err
	}
	add, err1 := l.parseAll(ed.Add)
	remove, err2 := l.parseAll(ed.Remove)
	if err := errors.Join(err1, err2); err != nil {
		return out, err
	}
	for _, e := range add {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		_, allowed := l.allow[e.Text]
		switch {
		case allowed:
			delete(l.allow, e.Text)
			out.Restored = append(out.Restored, e.Text)
		case l.has(e):
			out.Known++
			continue
		}
		if l.has(e) { // it was removed before
			continue
		}
		if err := l.changeable(); err != nil {
			return Edited{}, err
		}
		l.add(e)
		if !allowed {
			out.Added = append(out.Added, e.Text)
		}
	}
	for _, e := range remove {
		if _, found := l.Find(e); !found {
			out.Absent++
			continue
		}
		if l.allow == nil {
			l.allow = make(map[string]struct{})
		}
		l.allow[e.Text] = struct{}{}
		out.Removed = append(out.Removed, e.Text)
	}
	if rate := l.set().ErrorRate(); len(out.Added) > 0 && rate > 1.05*l.meta.Error {
		return Edited{}, fmt.Errorf("lists: %d entries more raise the error rate to %.3g, limit %.3g; build the list "+
			"again with a larger --capacity", len(out.Added), rate, l.meta.Error)
	}
	if len(l.allow) > maxAllow {
		return Edited{}, fmt.Errorf("lists: %d entries in the allow list, limit %d", len(l.allow), maxAllow)
	}
	if ed.Dry {
		return out, nil
	}
	return out, ed.write(l, path, &out)
}

// parseAll parses entries, without blank lines and comments.
func (l *List) parseAll(lines []string) (all []Entry, err error) {
	var bad []error
	for i, line := range lines {
		if line = strings.TrimSpace(cutComment(line)); line == "" {
			continue
		}
		e, err := l.parse(line)
		if err != nil {
			if len(bad) < maxShown {
				bad = append(bad, fmt.Errorf("line %d: %w", i+1, err))
			}
			continue
		}
		all = append(all, e)
	}
	return all, errors.Join(bad...)
}

// write replaces the files that an edit changes.
func (ed *Edit) write(l *List, path string, out *Edited) error {
	if len(out.Added)+len(out.Restored) > 0 {
		now := time.Now
		if ed.Now != nil {
			now = ed.Now
		}
		l.meta.Updated = now().UTC().Truncate(time.Second)
		if len(out.Added) > 0 {
			l.meta.Sources = append(l.meta.Sources,
				Source{Name: ed.Source, Entries: uint64(len(out.Added)), Read: l.meta.Updated})
		}
		if err := l.write(path); err != nil {
			return err
		}
	}
	if len(out.Restored)+len(out.Removed) == 0 {
		return nil
	}
	old, err := os.ReadFile(path + AllowSuffix)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("lists: %w", err)
	}
	lines := slices.DeleteFunc(strings.Split(strings.TrimRight(string(old), "\n"), "\n"), func(line string) bool {
		e, err := ParseEntry(cutComment(line))
		return line == "" || err == nil && slices.Contains(out.Restored, e.Text)
	})
	lines = append(lines, out.Removed...)
	return writeFile(path+AllowSuffix, func(w io.Writer) error {
		_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
		return err
	})
}
