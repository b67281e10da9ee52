package learning

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/lab/letters"
)

// A filed is a message of a collection.
type filed struct {
	path string
	spam bool
	at   float64 // place in its collection, 0 to 1
}

// Read reads collections of mail. Each is a folder with a file index.tsv, whose first columns are the
// name of a file with one message and its label, ham or spam, in order of time. Several collections
// are interleaved by the places of their messages, so that all last as long.
func Read(ctx context.Context, dirs ...string) ([]Letter, error) {
	var all []filed
	for _, dir := range dirs {
		one, err := readIndex(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, one...)
	}
	slices.SortStableFunc(all, func(a, b filed) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	files := func(yield func(filed, error) bool) {
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
	}
	got, err := letters.Read(ctx, files, func(f filed) *Letter { return &Letter{Name: f.path, Spam: f.spam} },
		func(ctx context.Context, f filed, l *Letter) { _ = l.read(ctx) })
	if err != nil {
		return nil, err
	}
	out := make([]Letter, 0, len(got))
	for _, l := range got {
		if l.Features == nil {
			return nil, fmt.Errorf("learning: %s: %w", l.Name, l.read(ctx))
		}
		out = append(out, *l)
	}
	return out, nil
}

// read reads the file of a letter.
func (l *Letter) read(ctx context.Context) error {
	raw, err := os.ReadFile(l.Name)
	if err != nil {
		return err
	}
	m, err := mail.Read(ctx, raw)
	if err != nil {
		return err
	}
	l.From = m.From
	if dkim, spf, _ := letters.Verified(letters.Header(raw)); len(dkim) > 0 {
		l.Verified = dkim[0]
	} else {
		l.Verified = spf
	}
	l.Features, err = learn.Features(ctx, m)
	return err
}

func readIndex(dir string) ([]filed, error) {
	f, err := os.Open(filepath.Join(dir, "index.tsv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []filed
	lines := bufio.NewScanner(f)
	lines.Scan() // names of columns
	for lines.Scan() {
		columns := strings.Split(lines.Text(), "\t")
		if len(columns) < 2 || columns[1] != "ham" && columns[1] != "spam" {
			return nil, fmt.Errorf("learning: %s: line %q", f.Name(), lines.Text())
		}
		all = append(all, filed{path: filepath.Join(dir, columns[0]), spam: columns[1] == "spam"})
	}
	for i := range all {
		all[i].at = float64(i) / float64(len(all))
	}
	return all, lines.Err()
}
