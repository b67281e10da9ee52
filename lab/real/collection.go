package real

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/mail"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-mail/bulkhead/lab/letters"
	"github.com/bulkhead-mail/bulkhead/lab/stream"
)

// errTooShort is the reason of a refusal.
var errTooShort = errors.New("too little text to identify the mail")

// CollectionOptions are how real mail is delivered. The zero value of a field means the default
// in brackets, if there is one.
type CollectionOptions struct {
	Seed      uint64
	PerDay    float64 // deliveries to all sites in a day [200]
	Reporting float64 // share of the readers of unflagged spam who report it [0.1]
	Users     int     // of each site [50]
	Sites     int     // by their doors in turn, at least one for each door [4]
	Mistakes  float64 // share of the readers of genuine mail who report it
	Late      float64 // share of the time after which the set [Made] begins
	// Signed takes genuine mail without a mail server's results as signed by its author's or its
	// list's domain. Without it the sender of such mail is not verified.
	Signed bool
}

// Made is the set of made mail, see [CollectionOptions].Late.
const Made = "made"

// Collection makes a plan of real mail: one copy of each message, in the order of each set, with
// all sets spread evenly over the same time. Readers report spam, and genuine mail by mistake.
func Collection(messages []stream.Mail, o CollectionOptions) *Plan {
	o.PerDay, o.Reporting, o.Users = cmp.Or(o.PerDay, 200), cmp.Or(o.Reporting, 0.1), cmp.Or(o.Users, 50)
	all := slices.Clone(messages)
	r := rand.New(rand.NewPCG(o.Seed, 0x636f6c6c))
	plan := &Plan{Name: fmt.Sprintf("collection, seed %d", o.Seed)}
	for i := range max(o.Sites, len(Doors)) {
		door := Doors[i%len(Doors)]
		s := Site{Domain: fmt.Sprintf("site-%s.example", door), Door: door}
		if i >= len(Doors) {
			s.Domain = fmt.Sprintf("site%d-%s.example", i, door)
		}
		for u := range o.Users {
			s.Users = append(s.Users, User{Name: fmt.Sprintf("user%d", u+1), Way: pick(r, Ways[door]), Rate: o.Reporting})
		}
		plan.Sites = append(plan.Sites, s)
	}
	slices.SortStableFunc(all, func(a, b stream.Mail) int {
		return cmp.Or(cmp.Compare(a.Set, b.Set),
			a.Time.Compare(b.Time))
	})
	sizes, places, campaigns := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range all {
		sizes[all[i].Set]++
	}
	span := float64(len(all)) / o.PerDay * float64(24*time.Hour)
	for i := range all {
		m := &all[i]
		campaign := fmt.Sprintf("%s %s %d", m.Set, m.Campaign, i)
		if m.Campaign != "" {
			campaign = m.Set + " " + m.Campaign
		}
		if _, ok := campaigns[campaign]; !ok {
			campaigns[campaign] = len(campaigns)
		}
		kind, rate := "ham", o.Mistakes
		if m.Spam {
			kind, rate = "spam", o.Reporting
		}
		start := 0.0
		if m.Set == Made {
			start = o.Late
		}
		site, user := r.IntN(len(plan.Sites)), r.IntN(o.Users)
		plan.Deliveries = append(plan.Deliveries, Delivery{
			At:   time.Duration((start + (1-start)*float64(places[m.Set])/float64(sizes[m.Set])) * span),
			Spam: m.Spam, Kind: kind, Groups: []Group{{"corpus", filepath.Base(m.Set)}, o.verified(m)},
			Campaign: campaigns[campaign],
			Site:     site, User: user, To: plan.Sites[site].Address(user), Reports: chance(r, rate),
			Delay: 5*time.Minute + later(r, 4*time.Hour), make: received(m, o.Signed),
		})
		places[m.Set]++
	}
	plan.Campaigns = len(campaigns)
	slices.SortStableFunc(plan.Deliveries, func(a, b Delivery) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// verified returns the group of a message by whether its sender counts as verified.
func (o *CollectionOptions) verified(m *stream.Mail) Group {
	dkim, spf, ok := letters.Verified(letters.Header(m.Raw))
	if len(dkim) > 0 || spf != "" || !ok && o.Signed && !m.Spam {
		return Group{"verified", "yes"}
	}
	return Group{"verified", "no"}
}

// ourResults matches fields that only the sites' own mail server may write.
var ourResults = regexp.MustCompile(`(?im)^authentication-results:[ \t]*` + regexp.QuoteMeta(resultsHost) +
	`(?:[^\n]|\n[ \t])*\n`)

// received returns what makes a message as the mail server of a site hands it on: with its own
// Authentication-Results, which say what the server that received it in the collection found.
func received(m *stream.Mail, signed bool) func(*rand.Rand, *Delivery) Mail {
	return func(_ *rand.Rand, d *Delivery) Mail {
		raw := bytes.ReplaceAll(m.Raw, []byte("\r\n"), []byte("\n"))
		if line, rest, ok := bytes.Cut(raw, []byte("\n")); ok && bytes.HasPrefix(line, []byte("From ")) {
			raw = rest // of a mailbox file
		}
		raw = ourResults.ReplaceAll(raw, nil)
		header := letters.Header(raw)
		v := Mail{Client: letters.Client(header), Helo: "client.example.org", Recipient: d.To,
			Date: m.Time.Format(time.RFC1123Z)}
		verified := false
		v.DKIM, v.SPF, verified = letters.Verified(header)
		read, err := mail.ReadMessage(bytes.NewReader(raw))
		if err == nil {
			v.From, v.Subject = read.Header.Get("From"), read.Header.Get("Subject")
			v.MessageID = strings.Trim(read.Header.Get("Message-ID"), " <>")
			v.Sender = addressOf(read.Header.Get("Return-Path"), v.From)
			if _, domain, ok := strings.Cut(addressOf(v.From), "@"); !verified && signed && !m.Spam && ok {
				v.DKIM = []string{strings.ToLower(domain)}
			}
		}
		if v.SPF != "" && !strings.HasSuffix(strings.ToLower(v.Sender), "@"+strings.ToLower(v.SPF)) {
			v.Sender = "bounce@" + v.SPF
		}
		_, body, _ := bytes.Cut(raw, []byte("\n\n"))
		v.Text = string(body)
		var b strings.Builder
		b.WriteString("Authentication-Results: " + resultsHost)
		for _, domain := range v.DKIM {
			b.WriteString(";\n\tdkim=pass header.d=" + domain)
		}
		if v.SPF != "" {
			b.WriteString(";\n\tspf=pass smtp.mailfrom=" + v.Sender)
		}
		if len(v.DKIM) == 0 && v.SPF == "" {
			b.WriteString("; none")
		}
		b.WriteString("\n")
		b.Write(raw)
		v.Raw = []byte(strings.ReplaceAll(b.String(), "\n", "\r\n"))
		return v
	}
}

// addressOf returns the first address in a list of header fields, "" for none.
func addressOf(texts ...string) string {
	for _, text := range texts {
		if a, err := mail.ParseAddress(text); err == nil {
			return a.Address
		}
	}
	return ""
}
