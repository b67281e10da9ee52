package replay

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/digest/rspamd"
	"github.com/bulkhead-mail/bulkhead/internal/mail"
	"github.com/bulkhead-mail/bulkhead/lab/letters"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A letter is what the replay keeps of one message.
type letter struct {
	name   string
	time   time.Time
	spam   bool
	size   int
	group  string // see Mail.Group
	sigs   []bulkhead.Signature
	texts  []rspamd.Hash // as rspamd's own storage gets them
	source bulkhead.Source
	copies int // sites that it is delivered to
	err    error
}

// readReplay computes the signatures of all mail on every processor, and
// returns it in order of arrival.
func readReplay(ctx context.Context, mail iter.Seq2[Mail, error], opts *Options) ([]*letter, error) {
	n, last := 0, time.Time{}
	all, err := letters.Read(ctx, mail, func(m Mail) *letter {
		if !m.Time.IsZero() {
			last = m.Time
		}
		n++
		opts.Progress("reading", n, 0)
		return &letter{name: m.Name, time: last, spam: m.Spam, group: m.Group, size: len(m.Raw)}
	}, func(ctx context.Context, m Mail, l *letter) {
		l.read(ctx, m.Raw, opts.Verified, signature.Options{Key: replayKey, Skip: opts.Skip})
	})
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.err != nil {
			return nil, fmt.Errorf("replay: %s: %w", l.name, l.err)
		}
	}
	slices.SortStableFunc(all, byTime)
	if opts.Interleave {
		if err := interleave(all); err != nil {
			return nil, err
		}
	}
	if err := spreadGroups(all); err != nil {
		return nil, err
	}
	address(all, opts)
	return all, nil
}

func byTime(a, b *letter) int { return a.time.Compare(b.time) }

// address decides how many sites each letter goes to.
func address(all []*letter, opts *Options) {
	// Choices of their own, so that the others are as without.
	tail := rand.NewZipf(rand.New(rand.NewPCG(opts.Seed, 0x7461696c)), 2, 1, uint64(opts.Sites-1))
	for _, l := range all {
		l.copies = opts.Copies
		if opts.HeavyTail {
			l.copies = 1 + int(tail.Uint64())
		}
	}
}

// interleave moves ham as Options.Interleave says, and puts all in order.
func interleave(all []*letter) error {
	var ham, spam []*letter
	for _, l := range all {
		switch {
		case l.group != "":
		case l.spam:
			spam = append(spam, l)
		default:
			ham = append(ham, l)
		}
	}
	if len(ham) == 0 || len(spam) == 0 {
		return fmt.Errorf("replay: %d ham and %d spam: want both to interleave", len(ham), len(spam))
	}
	spreadOver(ham, spam)
	slices.SortStableFunc(all, byTime)
	return nil
}

// spreadOver moves letters, in their order, to moments spread evenly over the time of others.
func spreadOver(moved, others []*letter) {
	first := others[0].time
	span := float64(others[len(others)-1].time.Sub(first))
	for i, l := range moved {
		l.time = first.Add(time.Duration(span * (float64(i) + 0.5) / float64(len(moved))))
	}
}

// spreadGroups moves the letters of each group as Mail.Group says, and puts all in order.
func spreadGroups(all []*letter) error {
	groups := make(map[string][]*letter)
	for _, l := range all {
		groups[l.group] = append(groups[l.group], l)
	}
	rest := groups[""]
	delete(groups, "")
	if len(groups) > 0 && len(rest) == 0 {
		return fmt.Errorf("replay: no mail but that of groups: want other mail among which to spread it")
	}
	for _, group := range groups {
		spreadOver(group, rest)
	}
	slices.SortStableFunc(all, byTime)
	return nil
}

// fuzzyHasher has the keys of a rule of rspamd that sets none.
var fuzzyHasher = rspamd.NewHasher("", "", rspamd.MumHash)

// replayKey is the network key of the simulated network.
var replayKey = [16]byte{'r', 'e', 'p', 'l', 'a', 'y'}

func (l *letter) read(ctx context.Context, raw []byte, verified bool, opts signature.Options) {
	m, err := mail.Read(ctx, raw)
	if err != nil {
		l.err = err
		return
	}
	var senders []bulkhead.Signature
	if l.source = m.Source(); verified {
		l.source = letters.Source(m, letters.Header(raw), l.spam)
		senders = signature.Senders(l.source)
	}
	l.sigs, l.err = letters.Signed(ctx, m, senders, opts)
	if l.err == nil && !slices.Contains(opts.Skip, bulkhead.RspamdText) {
		l.texts, l.err = fuzzyHasher.Hashes(mail.WithMessage(ctx, m), m.Raw, rspamd.Policy{})
	}
}
