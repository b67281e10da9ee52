package arrays

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/lab/study/experiment"
)

// listLines is the least number of lines of a text file that is a list.
const listLines = 1000

// realLists returns what real lists hold: of the mail, the senders, links and hosts of links of
// spam, and the others that only other mail has; and of each list that lies beside the mail a
// random half, and the other half.
func realLists(ctx context.Context, c *experiment.Config) ([]elementList, error) {
	files, err := ListCorpus(c.Corpus)
	if err != nil {
		return nil, err
	}
	spam, ham := newElements(), newElements()
	for _, f := range evenly(files, 100*c.Rounds) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		raw, err := os.ReadFile(f.Path)
		if err != nil {
			return nil, fmt.Errorf("study: %w", err)
		}
		if f.spam {
			spam.read(raw)
		} else {
			ham.read(raw)
		}
	}
	lists := []elementList{
		apart("senders of spam, and of other mail", spam.senders, ham.senders),
		apart("links in spam, and in other mail", spam.links, ham.links),
		apart("hosts of these links", spam.hosts, ham.hosts),
	}
	lists = slices.DeleteFunc(lists, func(l elementList) bool { return len(l.members) < 10 || len(l.others) < 10 })
	listed, err := listFiles(c.Corpus)
	if err != nil {
		return nil, err
	}
	for _, name := range listed {
		l, err := halves(c, name)
		if err != nil {
			return nil, err
		}
		lists = append(lists, l)
	}
	return lists, nil
}

// elements are what a collection of mail holds, each once.
type elements struct{ senders, links, hosts map[string]bool }

func newElements() *elements {
	return &elements{map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

var (
	linkPattern = regexp.MustCompile(`https?://([A-Za-z0-9.-]+)[^\s"'<>()\[\]{}\\]*`)
	softBreak   = regexp.MustCompile(`=\r?\n`)
)

// read adds the sender and the links of a message, as far as they can be read without
// taking its parts apart.
func (e *elements) read(raw []byte) {
	if m, err := mail.ReadMessage(bytes.NewReader(raw)); err == nil {
		if list, err := m.Header.AddressList("From"); err == nil {
			for _, a := range list {
				e.senders[strings.ToLower(a.Address)] = true
			}
		}
	}
	text := bytes.ReplaceAll(softBreak.ReplaceAll(raw, nil), []byte("=3D"), []byte("="))
	for _, found := range linkPattern.FindAllSubmatch(text, -1) {
		e.links[string(found[0])] = true
		e.hosts[strings.ToLower(string(found[1]))] = true
	}
}

// apart returns members, and those of others that are none.
func apart(name string, members, others map[string]bool) elementList {
	l := elementList{name: name, members: slices.Sorted(maps.Keys(members))}
	for _, x := range slices.Sorted(maps.Keys(others)) {
		if !members[x] {
			l.others = append(l.others, x)
		}
	}
	return l
}

// listFiles returns the text files in folders beside those of mail: lists with one
// element a line, and many of these.
func listFiles(folder string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*", "*.txt"))
	if err != nil {
		return nil, fmt.Errorf("study: %w", err)
	}
	var lists []string
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(filepath.Dir(name), "index.tsv")); err == nil {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("study: %w", err)
		}
		if bytes.Count(b, []byte("\n")) >= listLines {
			lists = append(lists, name)
		}
	}
	return lists, nil
}

// halves reads a list and parts it at random.
func halves(c *experiment.Config, name string) (elementList, error) {
	l := elementList{name: filepath.Base(filepath.Dir(name)) + "/" + filepath.Base(name)}
	b, err := os.ReadFile(name)
	if err != nil {
		return l, fmt.Errorf("study: %w", err)
	}
	have := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if x := strings.TrimSpace(line); x != "" && !strings.HasPrefix(x, "#") {
			have[x] = true
		}
	}
	all := slices.Sorted(maps.Keys(have))
	r := experiment.Stream(c.Seed, "halves "+l.name)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	l.members, l.others = all[:len(all)/2], all[len(all)/2:]
	return l, nil
}

// HashLists returns the checksums of the lists beside the mail.
func HashLists(folder string) ([]FileHash, error) {
	names, err := listFiles(folder)
	if err != nil {
		return nil, err
	}
	files := []FileHash{}
	for _, name := range names {
		sum, n, err := HashFile(name)
		if err != nil {
			return nil, fmt.Errorf("study: %w", err)
		}
		rel, err := filepath.Rel(folder, name)
		if err != nil {
			return nil, fmt.Errorf("study: %w", err)
		}
		files = append(files, FileHash{filepath.ToSlash(rel), n, sum})
	}
	return files, nil
}
