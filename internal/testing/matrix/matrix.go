// Package matrix holds the test of which client recognises what another client has reported: five
// clients report and unlearn mail, and five ask for copies of it. The caller of the test supplies the
// clients. The expected answers are the table in docs/doors.md.
package matrix

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A Door is a door as a client of its protocol uses it: what it reports, unlearns and
// recognises of a mail, whose lines end in LF.
type Door struct {
	Name            string
	Report, Unlearn func(raw []byte) error
	Known           func(raw []byte) (Word, error)
}

// A Word is what a client of a protocol makes of an answer.
type Word string

// The words of a client. DCC has no word for what is suspected.
const (
	Unknown   Word = "-"
	Suspected Word = "suspected"
	Spam      Word = "spam"
)

// A Matrix is a node with its doors, and letters that were never sent before.
type Matrix struct {
	Doors []Door // the first shows whole mail to the node
	// Slow doors share a report: every client asks for copies of the same letters, where
	// otherwise each has letters of its own.
	Slow bool
	// WholeAfter is, by the name of the door that reported a mail by its digest, the least that a
	// door with whole mail makes of the mail if the node had not seen it before.
	WholeAfter map[string]Word
	seed       uint64
}

// variants are how the mail that is asked for differs from the one that was reported.
var variants = []struct {
	name   string
	change func(*letter)
	least  int // cells that must be known, of 50
	spam   int // of these, as spam
}{
	{"exact copy", func(*letter) {}, 50, 50},
	{"other headers", func(l *letter) { l.header = "other" }, 50, 50},
	{"another name and link", func(l *letter) {
		l.name, l.link = "Bernhard", fmt.Sprintf("http://cheap%d.example.com/q?id=77812", l.seed)
	}, 40, 0},
	{"two words more", func(l *letter) { l.tail = "Kind regards\n" }, 40, 0},
}

func (m *Matrix) letter(alternative bool) letter {
	m.seed++
	return letter{seed: m.seed, alternative: alternative, name: "Ann",
		link: fmt.Sprintf("http://shop%d.example.com/a?u=1", m.seed), header: "one"}
}

// see lets the node see mail whole that was not reported.
func (m *Matrix) see(t *testing.T, letters ...letter) {
	t.Helper()
	for _, l := range letters {
		if got, err := m.Doors[0].Known(l.raw()); got != Unknown || err != nil {
			t.Fatalf("before any report: %v, %v", got, err)
		}
	}
}

func (m *Matrix) ask(t *testing.T, door Door, l letter) Word {
	t.Helper()
	got, err := door.Known(l.raw())
	if err != nil {
		t.Fatalf("%s checks: %v", door.Name, err)
	}
	return got
}

// reported returns a letter that was seen whole and then reported, and its copy, also seen.
func (m *Matrix) reported(t *testing.T, reporter Door, alternative bool, change func(*letter)) (changed letter) {
	t.Helper()
	original := m.letter(alternative)
	changed = original
	change(&changed)
	m.see(t, original, changed)
	if err := reporter.Report(original.raw()); err != nil {
		t.Fatalf("%s reports: %v", reporter.Name, err)
	}
	return changed
}

// Copies reports mail at each door that was seen whole before, and asks for copies at
// every door: of the 50 cells of each kind of copy as many are known as docs/doors.md says.
func (m *Matrix) Copies(t *testing.T) {
	var table strings.Builder
	for _, v := range variants {
		known, sure := 0, 0
		for _, reporter := range m.Doors {
			fmt.Fprintf(&table, "| %s | %s |", v.name, reporter.Name)
			var shared [2]letter
			if m.Slow {
				shared = [2]letter{m.reported(t, reporter, false, v.change), m.reported(t, reporter, true, v.change)}
			}
			for _, checker := range m.Doors {
				var cells []string
				for i, alternative := range []bool{false, true} {
					l := shared[i]
					if !m.Slow {
						l = m.reported(t, reporter, alternative, v.change)
					}
					got := m.ask(t, checker, l)
					if got != Unknown {
						known++
					}
					if got == Spam {
						sure++
					}
					cells = append(cells, string(got))
				}
				fmt.Fprintf(&table, " %s |", strings.Join(slices.Compact(cells), ", "))
			}
			table.WriteByte('\n')
		}
		t.Logf("%s: %d of 50, %d of them as spam", v.name, known, sure)
		if known < v.least || sure < v.spam {
			t.Errorf("%s: %d of 50 cells are known, %d as spam; want %d, %d", v.name, known, sure, v.least, v.spam)
		}
	}
	t.Logf("\n%s", &table)
}

// Unlearns reports mail at each door, unlearns it at each, and asks at every one: no client may
// know it any more, until it is reported again. Slow doors do so with every other kind of mail.
func (m *Matrix) Unlearns(t *testing.T) {
	for i, reporter := range m.Doors {
		for j, unlearner := range m.Doors {
			for _, alternative := range []bool{false, true} {
				if m.Slow && alternative != ((i+j)%2 == 1) {
					continue
				}
				l := m.reported(t, reporter, alternative, func(*letter) {})
				if err := unlearner.Unlearn(l.raw()); err != nil {
					t.Fatalf("%s unlearns: %v", unlearner.Name, err)
				}
				for _, checker := range m.Doors {
					if got := m.ask(t, checker, l); got != Unknown {
						t.Errorf("alternative %v: reported by %s and unlearnt by %s it is %s at %s", alternative, reporter.Name,
							unlearner.Name, got, checker.Name)
					}
				}
				if err := reporter.Report(l.raw()); err != nil {
					t.Fatalf("%s reports again: %v", reporter.Name, err)
				}
				for _, checker := range m.Doors {
					if got := m.ask(t, checker, l); got != Spam {
						t.Errorf("alternative %v: reported by %s, unlearnt by %s and reported again it is %s at %s", alternative,
							reporter.Name, unlearner.Name, got, checker.Name)
					}
				}
			}
		}
	}
}

// SeenAfter reports mail at each door that the node has not seen, shows it to the node whole, and
// asks the same door again: its answer is as bad as before. A door with whole mail also knows it.
func (m *Matrix) SeenAfter(t *testing.T) {
	for _, reporter := range m.Doors {
		for _, alternative := range []bool{false, true} {
			raw := m.letter(alternative)
			if err := reporter.Report(raw.raw()); err != nil {
				t.Fatalf("%s reports: %v", reporter.Name, err)
			}
			before := m.ask(t, reporter, raw)
			whole := m.ask(t, m.Doors[0], raw)
			after := m.ask(t, reporter, raw)
			t.Logf("alternative %v, reported by %s: %s, whole %s, then %s", alternative, reporter.Name, before, whole, after)
			if before != Spam || after != Spam {
				t.Errorf("alternative %v, reported by %s: %s, and after the node saw it %s; want spam twice", alternative,
					reporter.Name, before, after)
			}
			least := m.WholeAfter[reporter.Name]
			if whole != least && whole != Spam {
				t.Errorf("alternative %v, reported by %s before the node saw it: the whole mail is %s, want %s",
					alternative, reporter.Name, whole, least)
			}
			if again := m.ask(t, m.Doors[0], raw); again != whole {
				t.Errorf("alternative %v, reported by %s: the whole mail is %s, and then %s", alternative, reporter.Name,
					whole, again)
			}
		}
	}
}
