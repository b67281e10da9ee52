// Package stream plays a month of mail to the recipients of many sites, through the
// engine of a real node: campaigns whose numbers of copies have a heavy tail, ham of
// several kinds, mail of templates and clones of it, and people who complain late,
// seldom and sometimes wrongly.
//
//	letters, err := stream.Read(ctx, mail, 0, nil)
//	result, err := stream.Run(ctx, letters, stream.Options{Reporting: 0.1})
package stream

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A Kind is what a message is, for how often it is sent and how it is counted.
type Kind int

// The kinds.
const (
	Spam       Kind = iota
	Clone           // spam that has the text of a template
	Template        // ham that a program fills in for one recipient
	Newsletter      // ham for many
	List            // ham of a mailing list
	Personal        // other ham
	Quote           // ham that forwards or quotes mail of a template
	NumKinds        // how many kinds there are; not a kind
)

// habits is how mail of a kind is sent and received.
type habits struct {
	name string
	// A campaign has least/u^(1/tail) copies for a random u in (0, 1], but at most most.
	// Where the two are equal the number is fixed.
	least, most int
	// spread is the mean time from the first copy to another; 0: Options.Spread.
	spread time.Duration
	// mistaken is the share of the recipients who wrongly call it spam.
	mistaken float64
}

var kinds = [NumKinds]habits{
	Spam:       {name: "spam", least: 1, most: 1000},
	Clone:      {name: "clones", least: 1, most: 1000},
	Template:   {name: "templates", least: 1, most: 1, mistaken: 0.001},
	Newsletter: {name: "newsletters", least: 5, most: 300, spread: 2 * time.Hour, mistaken: 0.003},
	List:       {name: "lists", least: 1, most: 20, spread: 10 * time.Minute, mistaken: 0.001},
	Personal:   {name: "personal", least: 1, most: 1, mistaken: 0.0005},
	Quote:      {name: "quotes", least: 1, most: 1, mistaken: 0.0005},
}

// String returns the name of the kind, in the plural where it has one.
func (k Kind) String() string {
	if k < 0 || k >= NumKinds {
		return "invalid"
	}
	return kinds[k].name
}

// Spam reports whether mail of the kind is spam.
func (k Kind) Spam() bool { return k == Spam || k == Clone }

// Options describe a stream. The zero value of a field means the default in
// brackets.
type Options struct {
	// Sites is how many sites there are, each with Users users. Every copy goes to
	// a random one of them. [20 and 50]
	Sites int `json:"sites"`
	Users int `json:"users"`
	// Lone gives each site a node of its own; else all sites share one.
	Lone bool `json:"lone"`
	// Reporting is the share of the recipients of spam who report a copy that was
	// not called spam, in (0, 1]. [0.1]
	Reporting float64 `json:"reporting"`
	// Objecting is the share of the recipients of ham that was called spam who say that it is
	// not, in (0, 1]. [0.2]
	Objecting float64 `json:"objecting"`
	// Mistakes multiplies the rates of wrong complaints: 3 newsletters in 1000, one
	// message of a list or template in 1000, of others one in 2000. At most 100. [1]
	Mistakes float64 `json:"mistakes"`
	Days     int     `json:"days"` // that the stream lasts, at most 3650 [30]
	// Tail is the exponent of the number of copies: the smaller, the larger the largest campaigns.
	// 0.5 to 5 [1.1]
	Tail   float64       `json:"tail"`
	Spread time.Duration `json:"spread"` // mean time from the first copy of a spam campaign to another [48 hours]
	// Apart makes the copies of each message a campaign of their own, also of messages that the
	// collection says were sent together. It changes which copies are the first of a campaign,
	// and nothing else.
	Apart bool `json:"apart"`
	// After leaves out of all counts the messages that are first sent before this time of the
	// stream, and the campaigns that begin with them. They are played all the same: a node then has
	// the state of one that has run until this time. [0]
	After time.Duration `json:"after"`
	Runs  int           `json:"runs"`  // streams, each of a seed of its own [5]
	Seed  uint64        `json:"seed"`  // of the first; equal seeds give equal results [1]
	Exact bool          `json:"exact"` // in exact maps instead of filters
	Rule  Rule          `json:"rule"`  // who judges [Node]
	// Progress is called with the stage, the number of deliveries done, and their total. It may be
	// nil.
	Progress func(stage string, done, total int) `json:"-"`
}

// Complete replaces zero values by the defaults, and returns an error that names the first value
// out of range. [Run] also calls it.
func (o *Options) Complete() error {
	set(&o.Sites, 20)
	set(&o.Users, 50)
	set(&o.Reporting, 0.1)
	set(&o.Objecting, 0.2)
	set(&o.Mistakes, 1)
	set(&o.Days, 30)
	set(&o.Tail, 1.1)
	set(&o.Spread, 48*time.Hour)
	set(&o.Runs, 5)
	set(&o.Seed, 1)
	set(&o.Rule, Node)
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	switch {
	case o.Sites < 1 || o.Sites > 1000:
		return fmt.Errorf("stream: %d sites, want 1 to 1000", o.Sites)
	case o.Users < 1 || o.Users > 1_000_000:
		return fmt.Errorf("stream: %d users, want 1 to 1000000", o.Users)
	case !(o.Reporting > 0 && o.Reporting <= 1):
		return fmt.Errorf("stream: reporting %v, want a share in (0, 1]", o.Reporting)
	case !(o.Objecting > 0 && o.Objecting <= 1):
		return fmt.Errorf("stream: objecting %v, want a share in (0, 1]", o.Objecting)
	case !(o.Mistakes > 0 && o.Mistakes <= 100):
		return fmt.Errorf("stream: mistakes %v, want a factor in (0, 100]", o.Mistakes)
	case o.Days < 1 || o.Days > 3650:
		return fmt.Errorf("stream: %d days, want 1 to 3650", o.Days)
	case !(o.Tail >= 0.5 && o.Tail <= 5):
		return fmt.Errorf("stream: tail %v, want 0.5 to 5", o.Tail)
	case o.Spread < 0 || o.Spread > 1000*time.Hour:
		return fmt.Errorf("stream: spread %v, want up to 1000h", o.Spread)
	case o.After < 0 || o.After >= time.Duration(o.Days)*24*time.Hour:
		return fmt.Errorf("stream: after %v, want less than the %d days of the stream", o.After, o.Days)
	case o.Runs < 1 || o.Runs > 1000:
		return fmt.Errorf("stream: %d runs, want 1 to 1000", o.Runs)
	case !slices.Contains(Rules, o.Rule):
		return fmt.Errorf("stream: rule %q, want one of %q", o.Rule, Rules)
	}
	return nil
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Run plays opts.Runs streams made from the letters. Each delivery is checked, and then counted by
// the door of its site. Its recipient's reaction follows minutes to a day later, on behalf of the
// site.
func Run(ctx context.Context, letters []*Letter, opts Options) (*Result, error) {
	if err := opts.Complete(); err != nil {
		return nil, err
	}
	if len(letters) == 0 {
		return nil, fmt.Errorf("stream: no messages")
	}
	result := &Result{Options: opts, Messages: len(letters)}
	for i := range opts.Runs {
		p := newPlan(letters, &opts, opts.Seed+uint64(i))
		one, err := play(ctx, p, &opts)
		if err != nil {
			return nil, err
		}
		one.Seed = p.seed
		result.Runs = append(result.Runs, one)
	}
	result.estimate()
	return result, nil
}
