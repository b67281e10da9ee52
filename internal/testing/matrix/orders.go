package matrix

import (
	"fmt"
	"testing"
)

// An event is what happens to a letter.
type event uint8

const (
	seen       event = iota // a door for whole mail is asked
	reported                // by a door
	seconded                // by another door
	unlearnt                // by a door
	eventKinds              // the number of events
)

func (e event) String() string {
	return [...]string{"seen whole", "reported", "seconded", "unlearnt"}[e]
}

// rank orders words by how bad they are.
func (w Word) rank() int {
	switch w {
	case Suspected:
		return 1
	case Spam:
		return 2
	}
	return 0
}

// orders returns all orders of the events of a set.
func orders(events []event) (all [][]event) {
	if len(events) == 0 {
		return [][]event{nil}
	}
	for i, first := range events {
		rest := append(append([]event(nil), events[:i]...), events[i+1:]...)
		for _, order := range orders(rest) {
			all = append(all, append([]event{first}, order...))
		}
	}
	return all
}

// Orders lets the events happen to letters in each order, at each door, and asks the doors for digests after
// each event. Evidence for spam never lowers an answer, evidence against it never raises one, and to see
// the whole mail lowers none. A door knows what it has just reported.
func (m *Matrix) Orders(t *testing.T) {
	all := make([]event, eventKinds)
	for e := range eventKinds {
		all[e] = e
	}
	for i, order := range orders(all) {
		for r, reporter := range m.Doors {
			if testing.Short() && (r+i)%len(m.Doors) > 0 {
				continue
			}
			seconder := m.Doors[(r+1+i%(len(m.Doors)-1))%len(m.Doors)]
			unlearner := m.Doors[(r+i)%len(m.Doors)]
			m.order(t, order, m.letter(i%2 == 1), reporter, seconder, unlearner)
		}
	}
}

// order lets the events happen to one letter.
func (m *Matrix) order(t *testing.T, order []event, l letter, reporter, seconder, unlearner Door) {
	t.Helper()
	name := fmt.Sprintf("%v, reported by %s, seconded by %s, unlearnt by %s", order, reporter.Name, seconder.Name,
		unlearner.Name)
	before := make([]Word, len(m.Doors))
	for i := range before {
		before[i] = Unknown
	}
	whole := false // the first door was asked, and the node thus has seen the mail
	for _, e := range order {
		var err error
		var known *Door
		switch e {
		case seen:
			_, err = m.Doors[0].Known(l.raw())
			whole = true
		case reported:
			err, known = reporter.Report(l.raw()), &reporter
		case seconded:
			err, known = seconder.Report(l.raw()), &seconder
		case unlearnt:
			err = unlearner.Unlearn(l.raw())
		}
		if err != nil {
			t.Fatalf("%s: %v: %v", name, e, err)
		}
		for i, door := range m.Doors {
			if i == 0 && !whole {
				continue // to ask would show the node the mail
			}
			now := m.ask(t, door, l)
			switch {
			case e == unlearnt && now.rank() > before[i].rank(), e != unlearnt && now.rank() < before[i].rank():
				t.Errorf("%s: %v made it %s at %s, where it was %s", name, e, now, door.Name, before[i])
			case known != nil && known.Name == door.Name && now == Unknown:
				t.Errorf("%s: %v, and unknown at the same door", name, e)
			}
			before[i] = now
		}
	}
}
