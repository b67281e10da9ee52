// Package learning measures learning from reports against deliveries: a network of simulated sites
// receives labelled mail, reports a part of the spam, and judges each message by the words and the
// style of all that was counted before. Some of the sites may lie, and spam may carry the words of
// wanted mail.
//
// It counts in plain maps and uses the formulas of package learn alone. Exact counts cost nothing
// against the arrays of a node: their error is below the noise of the measurement.
package learning

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/bulkhead-mail/bulkhead/filter"
	"github.com/bulkhead-mail/bulkhead/internal/learn"
)

// A Letter is one message with its label.
type Letter struct {
	Name     string
	Spam     bool
	Made     bool   // by a made sender, see [Commercial]
	From     string // address of the sender
	Verified string // domain that was verified to have sent it, "" for none
	Features []string
	raw      []byte // of a made message
}

// Raw returns the message: a made one, or the contents of the file that is its name.
func (l *Letter) Raw() ([]byte, error) {
	if l.raw != nil {
		return l.raw, nil
	}
	return os.ReadFile(l.Name)
}

// A Lie is what the lying sites do.
type Lie string

// The lies. Each lying site knows all mail of the network.
const (
	Honest    Lie = ""
	Condemn   Lie = "condemn"  // reports all wanted mail
	Smear     Lie = "smear"    // reports the mail of made senders, and is honest about the rest
	Single    Lie = "single"   // reports the words of one sender that others hardly use, and is honest about the rest
	Turn      Lie = "turn"     // is honest for a hundred messages, and reports all wanted mail of the next hundred
	Vouch     Lie = "vouch"    // counts all spam as delivered
	Inflate   Lie = "inflate"  // claims a million deliveries without content
	lieOften      = 5          // times a lie counts a message
	turnAfter     = 100        // messages
	ownWord       = 0.9        // of the mail with a word, the share from one sender from which the word is its own
	boast         = 1_000_000. // deliveries that are claimed
)

// Options describe a run.
type Options struct {
	Seed     uint64
	Sites    int     // 1 or more
	Reported float64 // share of the spam that is reported, 0 to 1
	Mistaken float64 // share of the wanted mail that is reported, 0 to 1
	Lie      Lie
	Liars    int
	// Chaff adds words of one wanted message to each spam message: this number, all for a negative
	// number.
	Chaff int
	// Unlearnt leaves out deliveries with 0.99 or more even if the sender is of good standing.
	Unlearnt bool
	// Passed leaves out the reports of spam with 0.99 or more: its readers see it marked, and pass over it.
	Passed bool
	// Known leaves out the deliveries of spam that is not reported, as if a node knew them. No node does.
	Known bool
}

// Levels are the scores at which mail is counted.
var Levels = [...]float64{0.5, 0.9, 0.99, 0.999}

// A Result counts the judgements of honest sites. The counts are of all mail, and of mail from the
// first report on at which a score alone may suspect, see [learn.FirstReports].
type Result struct {
	Spam, Ham   int
	Caught, Hit [len(Levels)]int
	LaterSpam   int
	LaterCaught [len(Levels)]int
	// Made counts the wanted messages of made senders, see [Commercial], and MadeHit those with a level.
	Made    int
	MadeHit [len(Levels)]int
	// MadeFlagged counts those with 0.99 after the reports at which a score alone may suspect, without the messages of
	// senders of good standing.
	MadeFlagged int
	// Aimed counts the messages of the sender that a lie aims at, see [Single], and AimedHit those with a level.
	Aimed    int
	AimedHit [len(Levels)]int
}

// A counted is what the sites counted of one token.
type counted struct{ reported, delivered []float32 }

// A network is the state of a run.
type network struct {
	o      Options
	rng    *rand.Rand
	tokens map[learn.Token]*counted
	totals counted
	share  []float64
	shown  []uint64
	played int // letters so far

	standing map[correspondent]*history

	victim string              // sender that a lie aims at
	uses   map[learn.Token]use // of all wanted mail
}

// A correspondent is a verified sender of mail to a site.
type correspondent struct {
	site   int
	sender string
}

// A history is what a site knows of a correspondent.
type history struct {
	days, deliveries  int // before today
	today, ofToday    int
	reported, started bool
}

// perDay is the number of messages in a day.
const perDay = 200

// good reports whether the sender of a message is of good standing at a site, by the rule of docs/judgement.md, and
// counts the message.
func (n *network) good(site int, l *Letter, reported bool) bool {
	if l.Verified == "" {
		return false
	}
	who := correspondent{site, l.Verified}
	h := n.standing[who]
	if h == nil {
		h = &history{}
		n.standing[who] = h
	}
	if day := n.played / perDay; day != h.today || !h.started {
		if h.ofToday > 0 {
			h.days++
		}
		h.deliveries += h.ofToday
		h.today, h.ofToday, h.started = day, 0, true
	}
	good := !h.reported && h.deliveries >= 3 && h.days >= 2
	h.ofToday++
	h.reported = h.reported || reported
	return good
}

// A use is the number of wanted messages with a token, and of the victim's among them.
type use struct{ all, victims float64 }

// Run plays the letters in their order.
func Run(ctx context.Context, letters []Letter, o Options) (*Result, error) {
	if o.Sites < 1 || o.Liars < 0 || o.Liars >= o.Sites || o.Reported < 0 || o.Reported > 1 {
		return nil, fmt.Errorf("learning: %d sites, %d liars, %v reported", o.Sites, o.Liars, o.Reported)
	}
	n := &network{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6c6561726e)), tokens: make(map[learn.Token]*counted),
		share: make([]float64, o.Sites), shown: make([]uint64, o.Sites), standing: make(map[correspondent]*history)}
	n.totals = *n.counted()
	if o.Lie == Single {
		n.victim, n.uses = victim(letters, n.rng), make(map[learn.Token]use)
	}
	out := &Result{}
	var ham []int // letters so far that chaff is taken from
	secret := filter.Secret{byte(o.Seed), 1}
	for i := range letters {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l := &letters[i]
		features := l.Features
		if l.Spam && o.Chaff != 0 && len(ham) > 0 {
			features = withChaff(features, letters[ham[n.rng.IntN(len(ham))]].Features, o.Chaff, n.rng)
		}
		if !l.Spam {
			ham = append(ham, i)
		}
		n.letter(l, learn.Tokens(secret, features), out)
	}
	return out, nil
}

// victim returns the sender of a wanted message, of the made ones if there are any.
func victim(letters []Letter, rng *rand.Rand) string {
	var of [2][]string
	for i := range letters {
		if l := &letters[i]; !l.Spam {
			of[0] = append(of[0], l.From)
			if l.Made {
				of[1] = append(of[1], l.From)
			}
		}
	}
	for _, list := range [][]string{of[1], of[0]} {
		if len(list) > 0 {
			return list[rng.IntN(len(list))]
		}
	}
	return ""
}

// withChaff returns features with n words of others, or all of them if n is negative.
func withChaff(features, others []string, n int, rng *rand.Rand) []string {
	words := make([]string, 0, len(others))
	for _, f := range others {
		if strings.HasPrefix(f, "w:") {
			words = append(words, f)
		}
	}
	if n >= 0 && n < len(words) {
		rng.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		words = words[:n]
	}
	return slices.Concat(features, words)
}

func (n *network) counted() *counted {
	return &counted{make([]float32, n.o.Sites), make([]float32, n.o.Sites)}
}

// letter delivers a letter to an honest site, which judges it and may report it.
func (n *network) letter(l *Letter, tokens []learn.Token, out *Result) {
	site := n.o.Liars + n.rng.IntN(n.o.Sites-n.o.Liars)
	totals, counts := n.known(site, tokens)
	score := learn.Score(&totals, counts).Score
	out.count(l, score, totals.Reported >= learn.FirstReports)
	if !l.Spam && n.victim != "" && l.From == n.victim {
		out.Aimed++
		add(&out.AimedHit, score)
	}
	draw := n.rng.Float64()
	reported := l.Spam && draw < n.o.Reported || !l.Spam && draw < n.o.Mistaken
	good := n.good(site, l, reported)
	if l.Made && !good && score >= 0.99 && totals.Reported >= learn.FirstReports {
		out.MadeFlagged++
	}
	delivered := score < 0.99 || good && !n.o.Unlearnt
	if delivered && (!n.o.Known || !l.Spam || reported) {
		n.add(site, tokens, 0, 1)
	}
	if reported && (delivered || !n.o.Passed) {
		if shown, ok := learn.Shown(counts); ok {
			n.shown[site]++
			n.share[site] = learn.Averaged(n.share[site], shown, n.shown[site])
		}
		n.add(site, tokens, 1, 0)
	}
	n.lie(l, tokens)
}

// add adds a message with a score to the numbers of messages at each level.
func add(to *[len(Levels)]int, score float64) {
	for i, level := range Levels {
		if score >= level {
			to[i]++
		}
	}
}

// count counts the judgement of a letter. later is set from the report on that lets a score suspect.
func (r *Result) count(l *Letter, score float64, later bool) {
	switch {
	case !l.Spam:
		r.Ham++
	case later:
		r.LaterSpam++
		fallthrough
	default:
		r.Spam++
	}
	if l.Made {
		r.Made++
	}
	switch {
	case l.Spam:
		add(&r.Caught, score)
		if later {
			add(&r.LaterCaught, score)
		}
	default:
		add(&r.Hit, score)
		if l.Made {
			add(&r.MadeHit, score)
		}
	}
}

// lie has the lying sites count a letter.
func (n *network) lie(l *Letter, tokens []learn.Token) {
	n.played++
	own := n.own(l, tokens)
	for liar := range n.o.Liars {
		switch {
		case n.o.Lie == Single && len(own) > 0:
			n.add(liar, own, lieOften, 0)
		case n.o.Lie == Turn && !l.Spam && n.played/turnAfter%2 == 1:
			n.add(liar, tokens, lieOften, 0)
		case n.o.Lie == Single, n.o.Lie == Turn:
			n.add(liar, tokens, 0, 1)
			if l.Spam && n.rng.Float64() < n.o.Reported {
				n.add(liar, tokens, 1, 0)
			}
		case n.o.Lie == Condemn && !l.Spam:
			n.add(liar, tokens, lieOften, 0)
		case n.o.Lie == Condemn:
			n.add(liar, tokens, 0, 1)
		case n.o.Lie == Smear && l.Made:
			n.add(liar, tokens, lieOften, 0)
		case n.o.Lie == Smear:
			n.add(liar, tokens, 0, 1)
		case n.o.Lie == Vouch && l.Spam:
			n.add(liar, tokens, 0, lieOften)
		case n.o.Lie == Inflate:
			n.totals.delivered[liar] = boast
		}
	}
}

// own returns the tokens of a message of the victim that hardly any other wanted mail has.
func (n *network) own(l *Letter, tokens []learn.Token) (out []learn.Token) {
	if n.victim == "" || l.Spam {
		return nil
	}
	for _, t := range tokens {
		u := n.uses[t]
		u.all++
		if l.From == n.victim {
			u.victims++
			if u.victims >= ownWord*u.all {
				out = append(out, t)
			}
		}
		n.uses[t] = u
	}
	return out
}

func (n *network) add(site int, tokens []learn.Token, reported, delivered float32) {
	for _, t := range tokens {
		c := n.tokens[t]
		if c == nil {
			c = n.counted()
			n.tokens[t] = c
		}
		c.reported[site] += reported
		c.delivered[site] += delivered
	}
	n.totals.reported[site] += reported
	n.totals.delivered[site] += delivered
}

// known returns what a site knows of all mail and of tokens.
func (n *network) known(site int, tokens []learn.Token) (learn.Totals, []learn.Counts) {
	others := func(c *counted) (own learn.Counts, all []learn.Counts) {
		for i := range c.reported {
			x := learn.Counts{Reported: float64(c.reported[i]), Delivered: float64(c.delivered[i])}
			if i == site {
				own = x
			} else {
				all = append(all, x)
			}
		}
		return own, all
	}
	own, all := others(&n.totals)
	reported, delivered := make([]float64, len(all)), make([]float64, len(all))
	for i, c := range all {
		reported[i], delivered[i] = c.Reported, c.Delivered
	}
	reported, delivered = learn.Scales(reported), learn.Scales(delivered)
	known := learn.Together(all, reported, delivered)
	totals := learn.Totals{Counts: learn.Beside(own, known, len(all)), Share: n.share[site]}
	if n.shown[site] == 0 || n.o.Known {
		totals.Share = 1
	}
	counts := make([]learn.Counts, len(tokens))
	for i, t := range tokens {
		if c := n.tokens[t]; c != nil {
			own, all := others(c)
			counts[i] = learn.Beside(own, learn.Together(all, reported, delivered), len(all))
		}
	}
	return totals, counts
}
