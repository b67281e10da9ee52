// Package replay plays labelled mail through simulated sites that share one clearinghouse or
// several, and compares what filters catch with what exact maps catch.
//
//	result, err := replay.Run(ctx, mail, replay.Options{})
package replay

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/bulkhead-mail/bulkhead"
	"github.com/bulkhead-mail/bulkhead/internal/arrays"
	"github.com/bulkhead-mail/bulkhead/signature"
)

// A Mail is one message of a labelled collection.
type Mail struct {
	Name string    // for the report, for example its file
	Time time.Time // of arrival; zero: the time of the message before
	Spam bool      // its label
	// Group is "", or the name under which the mail is also counted apart. The mail of a group, for
	// example made from templates, is spread evenly, in its order, over the time of all mail
	// without one.
	Group string
	Raw   []byte
}

// Options describe the simulated network of a replay. The zero value of a
// field means the default in brackets.
type Options struct {
	// Sites is how many sites share the clearinghouse; each message goes to
	// Copies of them, chosen at random. [10 and 1]
	Sites, Copies int
	// HeavyTail has each message go to a number of sites of its own in place of Copies: most to
	// one, few to many, k with a probability that falls as 1/k^2. [no]
	HeavyTail bool
	// Spread is the mean time between two copies of one message. [10 minutes]
	Spread time.Duration
	// Interleave moves the ham, in its order, to moments spread evenly over the time of the
	// spam, since collections of ham and of spam are often of different years. Between the
	// messages of the spam the time stays as it was. [no]
	Interleave bool
	// Verified has the sites know the senders as a server that verifies them: by the
	// Authentication-Results of a message, and for ham without any as if the author's or the
	// list's domain had signed it. [nothing is known of senders]
	Verified bool
	// Share is the share of recipients, in (0, 1], who act on a wrong verdict: after a time
	// between half and three halves of Delay they report spam that was not caught, and revoke
	// ham that was. [0.3 and 1 hour]
	Share float64
	Delay time.Duration
	// Mistakes is the share of recipients of ham, in [0, 1), who report it as spam. Only the
	// share Share of them revokes that. [0]
	Mistakes float64
	// Weight is the trust in each site, in (0, 1]; a signature is listed when
	// the weights of those who reported it reach 1. [1]
	Weight    float64
	Threshold uint32 // count from which a message is bulk [the engine's]
	// NearMatch is how many bulkhead/near bands must agree.
	// [signature.NearMatch]
	NearMatch int
	// Skip lists schemes that are not computed. [none]
	Skip []bulkhead.Scheme
	// Capacity is how many signatures a generation of the tally is sized for.
	// [twice the most that the mail has in one generation]
	Capacity uint64
	// ShareFrom is the count from which a server shares a signature, 1 to [arrays.MaxFloor]:
	// mesh.share_counts_from. It is for [RunServers]. [1]
	ShareFrom uint32
	// ShareVotesFrom is the number of voters from which a server shares what they list or take off:
	// mesh.share_votes_from. [1]
	ShareVotesFrom uint32
	Seed           uint64 // of every choice; equal seeds give equal results
	// Progress is called with the state of the replay, in the stages "reading" (with an unknown
	// total, 0) and "delivering". It may be nil.
	Progress func(stage string, done, total int)
}

// Complete replaces zero values by the defaults, and returns an error that names the first value
// out of range. [Run] also calls it.
func (o *Options) Complete() error {
	set(&o.Sites, 10)
	set(&o.Copies, 1)
	set(&o.Spread, 10*time.Minute)
	set(&o.Share, 0.3)
	set(&o.Delay, time.Hour)
	set(&o.Weight, 1)
	set(&o.NearMatch, signature.NearMatch)
	set(&o.ShareFrom, 1)
	set(&o.ShareVotesFrom, 1)
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	switch {
	case o.Sites < 1 || o.Sites > 10_000:
		return fmt.Errorf("replay: %d sites, want 1 to 10000", o.Sites)
	case o.HeavyTail && o.Copies != 1:
		return fmt.Errorf("replay: %d copies of a message, and heavy-tailed numbers of them", o.Copies)
	case o.Copies < 1 || o.Copies > o.Sites:
		return fmt.Errorf("replay: %d copies for %d sites", o.Copies, o.Sites)
	case o.ShareFrom > arrays.MaxFloor:
		return fmt.Errorf("replay: counts shared from %d on, want 1 to %d", o.ShareFrom, arrays.MaxFloor)
	case o.ShareVotesFrom > arrays.MaxFloor:
		return fmt.Errorf("replay: votes shared from %d on, want 1 to %d", o.ShareVotesFrom, arrays.MaxFloor)
	case o.Spread < 0 || o.Delay < 0:
		return fmt.Errorf("replay: spread %v, delay %v: want no negative time", o.Spread, o.Delay)
	case !(o.Share > 0 && o.Share <= 1):
		return fmt.Errorf("replay: share %v, want one in (0, 1]", o.Share)
	case !(o.Mistakes >= 0 && o.Mistakes < 1):
		return fmt.Errorf("replay: mistakes %v, want a share in [0, 1)", o.Mistakes)
	case !(o.Weight > 0 && o.Weight <= 1):
		return fmt.Errorf("replay: weight %v, want one in (0, 1]", o.Weight)
	case o.NearMatch < 1 || o.NearMatch > signature.NearBands:
		return fmt.Errorf("replay: near match of %d bands, want 1 to %d", o.NearMatch, signature.NearBands)
	}
	return nil
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Run delivers mail to the sites of a simulated network in the order of arrival, through the
// engine of a real node and, beside it, through the same engine with exact maps, so that
// every error of the filters shows, and to other clearinghouses, each of its own scheme
// ([Judge]). Each delivery is checked and then counted as a sighting;
// recipients act on wrong verdicts as opts says.
//
// mail may come in any order; its first error ends the replay. All signatures
// are held in memory, about 70 bytes each; the messages are not.
//
// The engine's clock is the mail's: generations open and expire as they would have over the
// years that the mail covers.
func Run(ctx context.Context, mail iter.Seq2[Mail, error], opts Options) (*Result, error) {
	if err := opts.Complete(); err != nil {
		return nil, err
	}
	started := time.Now()
	letters, err := readReplay(ctx, mail, &opts)
	if err != nil {
		return nil, err
	}
	if len(letters) == 0 {
		return nil, fmt.Errorf("replay: no messages")
	}
	reading := time.Since(started)
	s, err := newSimulation(ctx, letters, opts)
	if err != nil {
		return nil, err
	}
	err = s.run(ctx)
	if err = s.close(ctx, err); err != nil {
		return nil, err
	}
	result := s.result()
	result.ReadSeconds = reading.Seconds()
	return result, nil
}
