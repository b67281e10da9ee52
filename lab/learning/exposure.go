package learning

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
	"github.com/bulkhead-mail/bulkhead/internal/lesson"
)

// An Exposure is what the peers of one site see of its words, of all its mail. All are numbers of words
// and idioms, except Messages and the shares.
type Exposure struct {
	Messages int
	All      int // distinct ones in the site's mail
	Single   int // in one message only
	Alone    int // in several messages of one person
	Shared   int // that peers see
	// Leaked are those among the shared ones that one message or one person had. It is always 0.
	Leaked int
	// Visible is the mean share of a message's words that peers see, and Whole the share of messages of
	// which peers see every word. Without a threshold, both are 1.
	Visible, Whole float64
}

// A plain source counts in a map, in one generation.
type plain struct {
	all    lesson.Entry
	counts map[learn.Token]lesson.Entry
}

// Entries implements [lesson.Source].
func (p *plain) Entries(_ uint64, tokens []learn.Token) (lesson.Entry, []lesson.Entry, bool) {
	out := make([]lesson.Entry, len(tokens))
	for i, t := range tokens {
		out[i] = p.counts[t]
		out[i].Token = t
	}
	return p.all, out, true
}

// Expose delivers all letters to the people of one site, each to one of them by chance, and returns what the
// site then shares, by the program's own rules.
func Expose(ctx context.Context, letters []Letter, people int, seed uint64) (*Exposure, error) {
	if people < 1 {
		return nil, fmt.Errorf("learning: %d people", people)
	}
	rng := rand.New(rand.NewPCG(seed, 0x6578706f7365))
	source := &plain{counts: make(map[learn.Token]lesson.Entry)}
	teacher := lesson.NewTeacher(source)
	secret := filter.Secret{byte(seed), 2}
	had := make(map[learn.Token]map[int]int) // messages by person
	var all [][]learn.Token
	for i := range letters {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tokens, who := learn.Tokens(secret, letters[i].Features), rng.IntN(people)
		all = append(all, tokens)
		for _, t := range tokens {
			e := source.counts[t]
			e.Delivered++
			source.counts[t] = e
			if had[t] == nil {
				had[t] = make(map[int]int)
			}
			had[t][who]++
		}
		source.all.Delivered++
		teacher.Learnt(lesson.Learnt{Start: 1, Text: learn.Token(i), Who: lesson.PersonOf(uint64(who), true), Tokens: tokens})
		teacher.Round()
	}
	out := &Exposure{Messages: len(letters), All: len(had)}
	shared := make(map[learn.Token]bool)
	for _, l := range teacher.Answer(&lesson.Study{}) {
		for _, e := range l.Entries {
			shared[e.Token] = true
		}
	}
	out.Shared = len(shared)
	for t, by := range had {
		if len(by) > 1 {
			continue
		}
		for _, n := range by {
			if n == 1 {
				out.Single++
			} else {
				out.Alone++
			}
		}
		if shared[t] {
			out.Leaked++
		}
	}
	return out, out.look(all, shared)
}

func (x *Exposure) look(all [][]learn.Token, shared map[learn.Token]bool) error {
	if len(all) == 0 {
		return errors.New("learning: no letters")
	}
	for _, tokens := range all {
		seen := 0
		for _, t := range tokens {
			if shared[t] {
				seen++
			}
		}
		x.Visible += float64(seen) / float64(max(1, len(tokens))) / float64(len(all))
		if seen == len(tokens) {
			x.Whole += 1 / float64(len(all))
		}
	}
	return nil
}
